-- organization_keys_page
-- $1 after_organization, $2 after_number, $3 master_key, $4 limit
SELECT k.number, k.master_key, k.wrapped_key, k.organization_id, k.created_at
FROM organization_keys k
WHERE (k.organization_id, k.number) > ($1, $2) AND k.master_key <> $3
ORDER BY k.organization_id, k.number
LIMIT $4;

-- keys_of_organization
-- $1 organization
SELECT k.number, k.master_key, k.created_at FROM organization_keys k
WHERE k.organization_id = $1 ORDER BY k.number DESC LIMIT 100;

-- organization_keys_replace
-- $1 organization, $2 number, $3 master_key, $4 new_master_key, $5 wrapped_key
UPDATE organization_keys SET master_key = $4, wrapped_key = $5
WHERE organization_id = $1 AND number = $2 AND master_key = $3;

-- user_keys_page
-- $1 first_organization, $2 first_user, $3 master_key, $4 limit
SELECT k.organization_id, k.made_for, k.master_key, k.wrapped_key
FROM user_keys k
WHERE (k.organization_id, k.made_for) >= ($1, $2) AND k.master_key <> $3
ORDER BY k.organization_id, k.made_for
LIMIT $4;

-- user_keys_replace
-- $1 organization, $2 user, $3 master_key, $4 new_master_key, $5 wrapped_key
UPDATE user_keys SET master_key = $4, wrapped_key = $5
WHERE organization_id = $1 AND made_for = $2 AND master_key = $3;

-- organization_keys_age
-- $1 organization, $2 number
SELECT created_at FROM organization_keys WHERE organization_id = $1 AND number = $2;

-- organization_keys_drop
-- $1 organization, $2 number, $3 needs_any, $4 needed
DELETE FROM organization_keys
WHERE organization_id = $1 AND number < $2 AND NOT $3 AND number <> ALL ($4::int4[]);

-- organization_keys_kept
-- $1 organization, $2 number
SELECT count(*) FROM organization_keys WHERE organization_id = $1 AND number < $2;
