#!/bin/sh
# Make the secrets that docker-compose.yml mounts; what is there already stays.
#
#     sh deploy/make-secrets.sh [FOLDER]        FOLDER is secrets/ beside docker-compose.yml
#
# To mail through a server, write its URL into smtp_url; mails are files until then.
set -eu

folder=${1:-$(dirname "$0")/../secrets}
mkdir -p "$folder"
# The programs in the containers are other users, and have to read the files: so the
# folder keeps the users of this host out.
chmod 700 "$folder"
cd "$folder"

random() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }

keep() { # NAME CONTENT
    [ -s "$1" ] || printf '%s\n' "$2" >"$1"
    chmod 444 "$1"
}

keep postgres_password "$(random)"
keep database_password "$(random)"
keep redis_password "$(random)"
keep redis.conf "requirepass $(cat redis_password)"
keep database_url "postgresql://minutehand:$(cat database_password)@postgres/minutehand"
keep broker_url "redis://:$(cat redis_password)@redis:6379/0"
keep smtp_url /data/mails
keep webhook_secret "whsec_$(head -c 32 /dev/urandom | base64 | tr -d '\n')"
