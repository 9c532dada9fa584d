-- organization_keys_page
SELECT k.number, k.master_key, k.wrapped_key, k.organization_id, k.created_at
FROM organization_keys k
WHERE (k.organization_id, k.number) > ($1, $2) AND k.master_key <> $3
ORDER BY k.organization_id, k.number
LIMIT $4;

-- keys_of_organization
SELECT k.number, k.master_key, k.created_at FROM organization_keys k
WHERE k.organization_id = $1 ORDER BY k.number DESC LIMIT 100;

-- organization_keys_replace
UPDATE organization_keys SET master_key = $4, wrapped_key = $5
WHERE organization_id = $1 AND number = $2 AND master_key = $3;

-- user_keys_page
SELECT k.organization_id, k.made_for, k.master_key, k.wrapped_key
FROM user_keys k
WHERE (k.organization_id, k.made_for) >= ($1, $2) AND k.master_key <> $3
ORDER BY k.organization_id, k.made_for
LIMIT $4;

-- user_keys_replace
UPDATE user_keys SET master_key = $4, wrapped_key = $5
WHERE organization_id = $1 AND made_for = $2 AND master_key = $3;

-- organization_keys_age
SELECT created_at FROM organization_keys WHERE organization_id = $1 AND number = $2;

-- organization_keys_drop
DELETE FROM organization_keys
WHERE organization_id = $1 AND number < $2 AND NOT $3 AND number <> ALL ($4::int4[]);

-- organization_keys_kept
SELECT count(*) FROM organization_keys WHERE organization_id = $1 AND number < $2;
