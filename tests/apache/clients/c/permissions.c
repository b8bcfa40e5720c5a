#include "script.h"

#include <string.h>

static struct ACL bob_only[] = {{31, {"digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="}}};
static struct ACL_vector bob_only_list = {1, bob_only};
static session_t bob;

static const char *get_and_set(void)
{
    struct ACL nonsense[] = {{31, {"nonsense", "x"}}};
    struct ACL_vector nonsense_list = {1, nonsense}, got;
    struct Stat stat;
    CODE(create(client.zh, "/acl", ZOO_PERSISTENT), ZOK);
    CODE(zoo_get_acl(client.zh, "/acl", &got, &stat), ZOK);
    NEED(got.count == 1 && got.data[0].perms == 31 && stat.aversion == 0);
    TEXT(got.data[0].id.scheme, "world");
    deallocate_ACL_vector(&got);
    CODE(zoo_set_acl(client.zh, "/acl", 7, &ZOO_OPEN_ACL_UNSAFE), ZBADVERSION);
    CODE(zoo_set_acl(client.zh, "/acl", -1, &nonsense_list), ZINVALIDACL);
    CODE(zoo_set_acl(client.zh, "/acl", 0, &bob_only_list), ZOK);
    return NULL;
}

static const char *denied_without(void)
{
    char data[10];
    int length = sizeof data;
    struct String_vector names;
    CODE(zoo_get(client.zh, "/acl", 0, data, &length, NULL), ZNOAUTH);
    CODE(set(client.zh, "/acl", "no"), ZNOAUTH);
    CODE(zoo_get_children(client.zh, "/acl", 0, &names), ZNOAUTH);
    CODE(zoo_set_acl(client.zh, "/acl", -1, &ZOO_OPEN_ACL_UNSAFE), ZNOAUTH);
    CODE(create(client.zh, "/acl/x", ZOO_PERSISTENT), ZNOAUTH);
    return NULL;
}

static const char *allowed_with(void)
{
    struct ACL_vector got;
    PASS(session_open(&bob, hosts, TIMEOUT_MS));
    CODE(set(bob.zh, "/acl", "no"), ZNOAUTH);
    CODE(add_auth(bob.zh, "digest", "bob:pw"), ZOK);
    CODE(set(bob.zh, "/acl", "yes"), ZOK);
    CODE(zoo_create(bob.zh, "/acl-auth", "", 0, &ZOO_CREATOR_ALL_ACL, ZOO_PERSISTENT, NULL, 0), ZOK);
    CODE(zoo_get_acl(bob.zh, "/acl-auth", &got, NULL), ZOK);
    bool bobs = false;
    int others = 0;
    for (int n = 0; n < got.count; n++) {
        bool his = strcmp(got.data[n].id.id, bob_only[0].id.id) == 0;
        bobs |= his;
        others += !his;
    }
    deallocate_ACL_vector(&got);
    NEED(bobs && others == identities());
    return NULL;
}

static const char *allowed_after_a_reconnect(void)
{
    NEED(control("cut"));
    PASS(await_state(&bob.events, ZOO_CONNECTED_STATE));
    CODE(set(bob.zh, "/acl", "again"), ZOK);
    session_close(&bob);
    return NULL;
}

static const char *unknown_scheme_fails(void)
{
    session_t other;
    PASS(session_open(&other, hosts, TIMEOUT_MS));
    CODE(add_auth(other.zh, "nonsense", "x"), ZAUTHFAILED);
    PASS(await_state(&other.events, ZOO_AUTH_FAILED_STATE));
    session_close(&other);
    return NULL;
}

void permissions(void)
{
    check("get and set ACL, right and wrong version", get_and_set);
    check("digest: denied without", denied_without);
    check("digest: allowed with zoo_add_auth, auth scheme stands for the creator", allowed_with);
    check("digest: allowed after a reconnect", allowed_after_a_reconnect);
    check("auth with an unknown scheme fails", unknown_scheme_fails);
}
