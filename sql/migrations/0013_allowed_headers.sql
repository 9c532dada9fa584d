-- Why: a mutation's headers go to an upstream only when they are on a list. Servers take different names for the same
-- (X_Sluice_User is X-Sluice-User to many) and obey some (X-HTTP-Method-Override), so those that must not go out cannot
-- be listed to the end. What an operator adds for an organization to the headers that all may carry, in lower case.
ALTER TABLE upstreams ADD COLUMN allowed_headers text[] NOT NULL DEFAULT '{}';
