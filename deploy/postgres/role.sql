-- The role and the database of Minutehand: PostgreSQL's image runs this once, when its
-- volume is new. The role is no superuser, and owns this database alone.
\set password `cat /run/secrets/database_password`
CREATE ROLE minutehand LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION
    PASSWORD :'password';
CREATE DATABASE minutehand OWNER minutehand;
REVOKE CONNECT, TEMPORARY ON DATABASE minutehand, postgres, template1 FROM PUBLIC;
