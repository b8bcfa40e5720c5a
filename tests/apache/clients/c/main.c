/* The C client against a server: see ../README.md. */
#include "script.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char hosts[200], direct[200];
session_t client, outside;

int create(zhandle_t *zh, const char *path, int mode)
{
    return zoo_create(zh, path, "x", 1, &ZOO_OPEN_ACL_UNSAFE, mode, NULL, 0);
}

bool missing(zhandle_t *zh, const char *path)
{
    return zoo_exists(zh, path, 0, NULL) == ZNONODE;
}

int set(zhandle_t *zh, const char *path, const char *data)
{
    return zoo_set(zh, path, data, strlen(data), -1);
}

static const char *make_root(void)
{
    session_t all;
    PASS(session_open(&all, getenv("ZK_DIRECT"), TIMEOUT_MS));
    CODE(create(all.zh, getenv("ZK_ROOT"), ZOO_PERSISTENT), ZOK);
    session_close(&all);
    return NULL;
}

static const char *connects(void)
{
    PASS(make_root());
    PASS(session_open(&client, hosts, TIMEOUT_MS));
    PASS(session_open(&outside, direct, 20000));
    NEED(zoo_recv_timeout(client.zh) == TIMEOUT_MS);
    return NULL;
}

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "restarts") == 0) {
        return restarts();
    }
    if (count == 2 && strcmp(arguments[1], "conform") == 0) {
        return conform();
    }
    snprintf(hosts, sizeof hosts, "%s%s", getenv("ZK_HOSTS"), getenv("ZK_ROOT"));
    snprintf(direct, sizeof direct, "%s%s", getenv("ZK_DIRECT"), getenv("ZK_ROOT"));
    zoo_set_debug_level(0);
    signal(SIGPIPE, SIG_IGN);  /* OpenSSL writes to what the proxy has closed */
    check("connect", connects);
    if (failed_checks()) {
        return 1;
    }
    operations();
    multi();
    permissions();
    watches();
    locks();
    sessions();
    session_close(&outside);
    return failed_checks() ? 1 : 0;
}
