#include "script.h"

static events_t data, children, created, still;
static session_t brief;

static const char *reconnects(void)
{
    int64_t session = session_id(&client);
    struct String_vector names;
    char buffer[10];
    int length = sizeof buffer;
    CODE(create(client.zh, "/live", ZOO_PERSISTENT), ZOK);
    CODE(create(client.zh, "/live/mine", ZOO_EPHEMERAL), ZOK);
    CODE(create(client.zh, "/live/quiet", ZOO_PERSISTENT), ZOK);
    CODE(zoo_wget(client.zh, "/live", note, &data, buffer, &length, NULL), ZOK);
    CODE(zoo_wget_children(client.zh, "/live", note, &children, &names), ZOK);
    deallocate_String_vector(&names);
    CODE(zoo_wexists(client.zh, "/live/new", note, &created, NULL), ZNONODE);
    CODE(zoo_wexists(client.zh, "/live/quiet", note, &still, NULL), ZOK);
    forget(&client.events);
    NEED(control("refuse"));
    PASS(await_state(&client.events, ZOO_CONNECTING_STATE));
    CODE(set(outside.zh, "/live", "changed"), ZOK);
    CODE(create(outside.zh, "/live/new", ZOO_PERSISTENT), ZOK);
    NEED(control("heal"));
    PASS(await_state(&client.events, ZOO_CONNECTED_STATE));
    NEED(session_id(&client) == session);
    return NULL;
}

static const char *ephemeral_is_kept(void)
{
    struct Stat stat;
    CODE(zoo_exists(outside.zh, "/live/mine", 0, &stat), ZOK);
    NEED(stat.ephemeralOwner == session_id(&client));
    return NULL;
}

static const char *missed_events_are_told(void)
{
    PASS(expect(&data, ZOO_CHANGED_EVENT, "/live"));
    PASS(expect(&children, ZOO_CHILD_EVENT, "/live"));
    PASS(expect(&created, ZOO_CREATED_EVENT, "/live/new"));
    return NULL;
}

static const char *watches_are_armed_again(void)
{
    CODE(set(outside.zh, "/live/quiet", "1"), ZOK);
    PASS(expect(&still, ZOO_CHANGED_EVENT, "/live/quiet"));
    return NULL;
}

static const char *silence(void)
{
    session_t silent;
    PASS(session_open(&silent, hosts, 3000));
    int64_t session = session_id(&silent);
    NEED(control("stall"));
    PASS(await_state(&silent.events, ZOO_CONNECTING_STATE));
    NEED(control("heal"));
    PASS(await_state(&silent.events, ZOO_CONNECTED_STATE));
    NEED(session_id(&silent) == session);
    session_close(&silent);
    return NULL;
}

static const char *ephemeral_expires(void)
{
    events_t gone;
    events_init(&gone);
    PASS(session_open(&brief, hosts, 1000));
    CODE(create(brief.zh, "/expiring", ZOO_EPHEMERAL), ZOK);
    CODE(zoo_wexists(outside.zh, "/expiring", note, &gone, NULL), ZOK);
    NEED(control("refuse"));
    PASS(expect(&gone, ZOO_DELETED_EVENT, "/expiring"));
    NEED(missing(outside.zh, "/expiring"));
    return NULL;
}

static const char *client_sees_expiry(void)
{
    NEED(control("heal"));
    PASS(await_state(&brief.events, ZOO_EXPIRED_SESSION_STATE));
    NEED(is_unrecoverable(brief.zh) == ZINVALIDSTATE);
    session_close(&brief);
    return NULL;
}

static const char *closing(void)
{
    EVENTUALLY(zoo_state(client.zh) == ZOO_CONNECTED_STATE);
    CODE(zoo_exists(outside.zh, "/live/mine", 0, NULL), ZOK);
    session_close(&client);
    NEED(missing(outside.zh, "/live/mine"));
    return NULL;
}

static const char *handed_over(void)
{
    session_t first, second;
    PASS(session_open(&first, hosts, TIMEOUT_MS));
    clientid_t id = *zoo_client_id(first.zh);
    CODE(create(first.zh, "/handed", ZOO_EPHEMERAL), ZOK);
    NEED(control("refuse"));
    PASS(await_state(&first.events, ZOO_CONNECTING_STATE));
    events_init(&second.events);
    second.zh = init(direct, TIMEOUT_MS, &id, &second.events);
    NEED(second.zh != NULL);
    PASS(await_state(&second.events, ZOO_CONNECTED_STATE));
    NEED(session_id(&second) == id.client_id);
    session_close(&second);
    NEED(missing(outside.zh, "/handed"));
    NEED(control("heal"));
    PASS(await_state(&first.events, ZOO_EXPIRED_SESSION_STATE));
    session_close(&first);
    return NULL;
}

void sessions(void)
{
    events_init(&data);
    events_init(&children);
    events_init(&created);
    events_init(&still);
    check("reconnect: same session", reconnects);
    check("reconnect: ephemeral still there", ephemeral_is_kept);
    check("reconnect: watches report what happened while away", missed_events_are_told);
    check("reconnect: other watches are armed again", watches_are_armed_again);
    check("reconnect: after silence, same session", silence);
    check("expiry: the ephemeral goes, others are notified", ephemeral_expires);
    check("expiry: the client sees it", client_sees_expiry);
    check("a session is handed over with its id and password", handed_over);
    check("close: the session's ephemerals go at once", closing);
}
