-- postgres_plan_by_index
SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true);

-- commit_limit
-- $1 milliseconds
SELECT set_config('statement_timeout', $1, false);
