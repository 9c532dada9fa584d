#!/bin/sh
# Executed by the image of PostgreSQL when it makes its database: the login role of the gateways. What it may do comes
# from `sluice migrate --roles`.
set -eu
psql --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set ON_ERROR_STOP=1 \
    --set password="$(cat /run/secrets/gateway_password)" <<'SQL'
CREATE ROLE sluice_gateway NOLOGIN;
CREATE ROLE gateway LOGIN PASSWORD :'password' IN ROLE sluice_gateway;
SQL
