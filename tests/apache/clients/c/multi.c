#include "script.h"

#include <string.h>

static const char *succeeds_whole(void)
{
    char made[3][100];
    struct Stat stat;
    zoo_op_t ops[6];
    zoo_op_result_t results[6];
    zoo_create_op_init(&ops[0], "/multi", "0", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, made[0], sizeof made[0]);
    zoo_create_op_init(&ops[1], "/multi/s-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL, made[1], sizeof made[1]);
    zoo_create_op_init(&ops[2], "/multi/e", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, made[2], sizeof made[2]);
    zoo_set_op_init(&ops[3], "/multi", "1", 1, 0, &stat);
    zoo_check_op_init(&ops[4], "/multi", 1);
    zoo_delete_op_init(&ops[5], "/multi/s-0000000000", -1);
    CODE(zoo_multi(client.zh, 6, ops, results), ZOK);
    for (int i = 0; i < 6; i++) {
        CODE(results[i].err, ZOK);
    }
    TEXT(made[1], "/multi/s-0000000000");
    NEED(stat.version == 1);
    CODE(zoo_exists(client.zh, "/multi", 0, &stat), ZOK);
    NEED(stat.numChildren == 1);
    return NULL;
}

static const char *fails_whole(void)
{
    char made[100];
    zoo_op_t ops[3];
    zoo_op_result_t results[3];
    zoo_create_op_init(&ops[0], "/multi/b", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, made, sizeof made);
    zoo_check_op_init(&ops[1], "/multi", 9);
    zoo_delete_op_init(&ops[2], "/multi/e", -1);
    CODE(zoo_multi(client.zh, 3, ops, results), ZBADVERSION);
    CODE(results[0].err, ZOK);
    CODE(results[1].err, ZBADVERSION);
    CODE(results[2].err, ZRUNTIMEINCONSISTENCY);
    NEED(missing(client.zh, "/multi/b"));
    return NULL;
}

void multi(void)
{
    check("multi: all kinds succeed", succeeds_whole);
    check("multi: one failure undoes all, an error for each operation", fails_whole);
}
