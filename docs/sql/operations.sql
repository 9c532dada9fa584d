-- operation_screen
-- $1 organization, $2 user, $3 ids, $4 stuck_at, $5 id, $6 token
SELECT m.id
FROM unnest($3::uuid[], $4::timestamptz[]) AS k (id, stuck_at)
CROSS JOIN LATERAL (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
        OFFSET 0
    ) m
WHERE m.stuck_at = k.stuck_at
    AND EXISTS (
        SELECT 1 FROM operations o
        WHERE o.organization_id = $1 AND o.id = $5 AND o.lease_token = $6 AND o.state = 'running');

-- operation_make
-- $1 organization, $2 id, $3 kind, $4 statuses, $5 entity_type, $6 error_code, $7 error_status, $8 user, $9 ids, $10 dependents, $11 strategy, $12 reason, $13 actor, $14 per_second, $15 now, $16 has_ids, $17 total, $18 total_is_more
INSERT INTO operations AS o (
    organization_id, id, kind, statuses, entity_type, error_code, error_status, user_id, ids, dependents, strategy,
    reason, actor, per_second, state, due_at, created_at, changed_at, total, total_is_more)
SELECT g.id, $2, $3, $4, $5, $6, $7, $8, CASE WHEN $16::bool THEN $9::uuid[] END, $10, $11, $12, $13, $14,
    'running', $15, $15, $15, $17, $18
FROM organizations g WHERE g.id = $1 AND g.status <> 'purging'
RETURNING o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.place_entity, o.lease_owner, o.lease_token,
    o.created_at, o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more;

-- operation_lock_organization
-- $1 organization
SELECT 1 FROM organizations g WHERE g.id = $1 FOR NO KEY UPDATE;

-- operation_of_erased
-- Returns a row if the user (`user`) was erased.
-- $1 organization, $2 user
SELECT 1 WHERE (SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = $1::uuid
        AND e.user_hash = sha256(uuid_send($1::uuid) || uuid_send($2::uuid))) IS NOT NULL;

-- operation_running
-- The number of an organization's running operations, counted up to `limit`.
-- $1 organization, $2 limit
SELECT count(*) AS count
FROM (SELECT 1 FROM operations o WHERE o.organization_id = $1 AND o.ended_at IS NULL LIMIT $2) x;

-- operation_find
-- $1 organization, $2 id
SELECT o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.place_entity, o.lease_owner, o.lease_token,
    o.created_at, o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more FROM operations o WHERE o.organization_id = $1 AND o.id = $2;

-- operation_list
-- $1 organization, $2 after, $3 after_organization, $4 after_id, $5 state, $6 limit
SELECT o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.place_entity, o.lease_owner, o.lease_token,
    o.created_at, o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more, o.has_more
FROM (
    SELECT o.*, row_number() OVER w AS place, row_number() OVER w < count(*) OVER () AS has_more,
        sum(1024 + 39 * coalesce(cardinality(o.ids), 0)) OVER w AS bytes_to
    FROM (
        SELECT o.*
        FROM operations o
        WHERE o.organization_id = $1 AND (o.created_at, o.id) < ($2, $4) AND $3::uuid IS NOT NULL AND ($5::text IS NULL OR o.state = $5)
        ORDER BY o.created_at DESC, o.id DESC
        LIMIT $6
    ) o
    WINDOW w AS (ORDER BY o.created_at DESC, o.id DESC)
) o
WHERE o.place = 1 OR o.bytes_to <= 2097152
ORDER BY o.created_at DESC, o.id DESC;

-- operation_list_of_all
-- $1 organization, $2 after, $3 after_organization, $4 after_id, $5 state, $6 limit
SELECT o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.place_entity, o.lease_owner, o.lease_token,
    o.created_at, o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more, o.has_more
FROM (
    SELECT o.*, row_number() OVER w AS place, row_number() OVER w < count(*) OVER () AS has_more,
        sum(1024 + 39 * coalesce(cardinality(o.ids), 0)) OVER w AS bytes_to
    FROM (
        SELECT o.*
        FROM operations o
        WHERE (o.created_at, o.organization_id, o.id) < ($2, $3, $4) AND $1::uuid IS NOT NULL AND ($5::text IS NULL OR o.state = $5)
        ORDER BY o.created_at DESC, o.organization_id DESC, o.id DESC
        LIMIT $6
    ) o
    WINDOW w AS (ORDER BY o.created_at DESC, o.organization_id DESC, o.id DESC)
) o
WHERE o.place = 1 OR o.bytes_to <= 2097152
ORDER BY o.created_at DESC, o.organization_id DESC, o.id DESC;

-- operations_due
-- The due operations of all organizations, except the organizations in `except`
-- $1 now, $2 limit, $3 except
SELECT x.organization_id, x.id, x.due_at FROM operations x
WHERE x.due_at <= $1 AND x.organization_id <> ALL ($3::uuid[]) ORDER BY x.due_at LIMIT $2;

-- operation_claim
-- Claims an operation for a gateway (`owner`) until `until`
-- $1 organization, $2 id, $3 due_at, $4 owner, $5 until, $6 now
UPDATE operations AS o
SET lease_owner = $4, lease_token = o.lease_token + 1, due_at = $5, started_at = coalesce(o.started_at, $6)
WHERE o.organization_id = $1 AND o.id = $2 AND o.due_at = $3
RETURNING o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.place_entity, o.lease_owner, o.lease_token,
    o.created_at, o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more;

-- operation_held
-- Returns a row if the lease is valid: no other gateway has claimed the operation, and the operation has not ended.
-- $1 organization, $2 id, $3 token
SELECT 1 FROM operations o
WHERE o.organization_id = $1 AND o.id = $2 AND o.lease_token = $3 AND o.state = 'running';

-- operation_count_done
-- Adds the number of mutations that a transaction has settled (`count`), in the same transaction.
-- $1 organization, $2 id, $3 count, $4 now
UPDATE operations AS o SET done = o.done + $3, matched = o.matched + $3, changed_at = $4
WHERE o.organization_id = $1 AND o.id = $2;

-- operation_advance
-- Ends a step: records the numbers of skipped and failed mutations and the position, and renews the lease.
-- $1 organization, $2 id, $3 token, $4 skipped, $5 failed, $6 reasons, $7 at, $8 user, $9 mutation, $10 due_at, $11 now
UPDATE operations AS o
SET matched = o.matched + $4 + $5, skipped = o.skipped + $4, failed = o.failed + $5, reasons = $6,
    place_at = $7, place_user = $8, place_id = $9, due_at = $10, changed_at = $11
WHERE o.organization_id = $1 AND o.id = $2 AND o.lease_token = $3 AND o.state = 'running'
RETURNING o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.place_entity, o.lease_owner, o.lease_token,
    o.created_at, o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more;

-- operation_advance_entities
-- Ends a step of an evaluation: records the numbers of evaluated and skipped entities and the position, and renews the lease.
-- $1 organization, $2 id, $3 token, $4 done, $5 skipped, $6 reasons, $7 entity, $8 due_at, $9 now
UPDATE operations AS o
SET matched = o.matched + $4 + $5, done = o.done + $4, skipped = o.skipped + $5, reasons = $6,
    place_entity = $7, due_at = $8, changed_at = $9
WHERE o.organization_id = $1 AND o.id = $2 AND o.lease_token = $3 AND o.state = 'running'
RETURNING o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.place_entity, o.lease_owner, o.lease_token,
    o.created_at, o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more;

-- operation_end
-- Ends an operation
-- $1 organization, $2 id, $3 token, $4 state, $5 error, $6 now
UPDATE operations AS o
SET state = $4, error = $5, due_at = NULL, lease_owner = NULL, ended_at = $6, changed_at = $6
WHERE o.organization_id = $1 AND o.id = $2 AND o.lease_token = $3 AND o.state = 'running'
RETURNING o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.place_entity, o.lease_owner, o.lease_token,
    o.created_at, o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more;

-- operation_release
-- Releases the lease, so that another gateway can continue from `due_at` on.
-- $1 organization, $2 id, $3 token, $4 due_at
UPDATE operations AS o SET due_at = $4, lease_owner = NULL
WHERE o.organization_id = $1 AND o.id = $2 AND o.lease_token = $3 AND o.state = 'running';

-- operation_cancel
-- Ends an operation
-- $1 organization, $2 id, $3 now
UPDATE operations AS o
SET state = 'cancelled', due_at = NULL, lease_owner = NULL, ended_at = $3, changed_at = $3
WHERE o.organization_id = $1 AND o.id = $2 AND o.state = 'running';

-- operation_prune
-- Deletes operations of all organizations that ended before `before`.
-- $1 before, $2 limit
DELETE FROM operations AS o
USING (
    SELECT x.organization_id, x.id FROM operations x WHERE x.ended_at < $1 ORDER BY x.ended_at LIMIT $2
) k
WHERE o.organization_id = k.organization_id AND o.id = k.id;
