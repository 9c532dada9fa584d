#!/bin/sh
# The image of PostgreSQL runs this when it creates its database. Creates the login role of the gateways; its privileges come
# from `sluice migrate --roles`.
set -eu
psql --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" --set ON_ERROR_STOP=1 \
    --set password="$(cat /run/secrets/gateway_password)" <<'SQL'
CREATE ROLE sluice_gateway NOLOGIN;
CREATE ROLE gateway LOGIN PASSWORD :'password' IN ROLE sluice_gateway;
SQL
