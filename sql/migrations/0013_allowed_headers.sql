-- Why: a mutation's headers are sent to an upstream only if they are on a list. A list of forbidden headers could not
-- be complete: many servers treat different names as the same (X_Sluice_User as X-Sluice-User), and some obey special
-- ones (X-HTTP-Method-Override). This column contains the headers, in lower case, that an operator allows for an
-- organization in addition to those allowed for all.
ALTER TABLE upstreams ADD COLUMN allowed_headers text[] NOT NULL DEFAULT '{}';
