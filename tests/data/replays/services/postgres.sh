# Job: PostgreSQL 15
# Person: --workflow services.yml --job postgres
# Python: 3.12
export REDIS_URL=redis://localhost:6379/0

#: Initialize containers
# GitHub starts images; here the same servers are started by hand, as a person who is not root.
as_nobody="$([ "$(id -u)" = 0 ] && echo setpriv --reuid=nobody --regid=nogroup --clear-groups || true)"
postgres=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
mkdir -p "$RUNNER_TEMP/postgres" "$RUNNER_TEMP/redis"
chmod 711 "$RUNNER_TEMP" "$(dirname "$RUNNER_TEMP")"
[ -z "$as_nobody" ] || chown nobody "$RUNNER_TEMP/postgres" "$RUNNER_TEMP/redis"
cd "$RUNNER_TEMP/postgres"
echo app >password
$as_nobody "$postgres/initdb" -D data -U app --pwfile=password -A scram-sha-256 >/dev/null
$as_nobody "$postgres/pg_ctl" -D data -w -s -l log -o "-p 5432 -c unix_socket_directories=$PWD" start
PGPASSWORD=app "$postgres/createdb" -h localhost -p 5432 -U app app_test
$as_nobody redis-server --port 6379 --daemonize yes --dir "$RUNNER_TEMP/redis" --pidfile "$RUNNER_TEMP/redis/pid" >/dev/null
#: Run actions/checkout@v4
#: Set up Python
#: Install
pip install -r requirements.txt
pip install -r requirements-test.txt
#: Wait for the database
export TIMEOUT=30
python -m scripts.wait_for_database
#: Tests
export DATABASE_URL=postgresql://app:app@localhost:5432/app_test
python -m pytest tests/integration -x
#: Stop containers
as_nobody="$([ "$(id -u)" = 0 ] && echo setpriv --reuid=nobody --regid=nogroup --clear-groups || true)"
$as_nobody "$(ls -d /usr/lib/postgresql/*/bin | tail -1)/pg_ctl" -D "$RUNNER_TEMP/postgres/data" -s -m immediate stop
kill "$(cat "$RUNNER_TEMP/redis/pid")"
