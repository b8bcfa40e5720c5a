#include "script.h"

static events_t events;

static const char *data_watch(void)
{
    CODE(create(outside.zh, "/w", ZOO_PERSISTENT), ZOK);
    char data[10];
    int length = sizeof data;
    CODE(zoo_wget(client.zh, "/w", note, &events, data, &length, NULL), ZOK);
    CODE(set(outside.zh, "/w", "1"), ZOK);
    CODE(set(outside.zh, "/w", "2"), ZOK);
    PASS(expect(&events, ZOO_CHANGED_EVENT, "/w"));
    CODE(zoo_exists(client.zh, "/w", 0, NULL), ZOK);
    pause_ms(50);
    NEED(quiet(&events));
    return NULL;
}

static const char *exists_watch(void)
{
    CODE(zoo_wexists(client.zh, "/w/new", note, &events, NULL), ZNONODE);
    CODE(create(outside.zh, "/w/new", ZOO_PERSISTENT), ZOK);
    PASS(expect(&events, ZOO_CREATED_EVENT, "/w/new"));
    CODE(zoo_wexists(client.zh, "/w/new", note, &events, NULL), ZOK);
    CODE(zoo_delete(outside.zh, "/w/new", -1), ZOK);
    PASS(expect(&events, ZOO_DELETED_EVENT, "/w/new"));
    return NULL;
}

static const char *child_watch(void)
{
    struct String_vector names;
    struct Stat stat;
    CODE(zoo_wget_children(client.zh, "/w", note, &events, &names), ZOK);
    deallocate_String_vector(&names);
    CODE(create(outside.zh, "/w/c", ZOO_PERSISTENT), ZOK);
    PASS(expect(&events, ZOO_CHILD_EVENT, "/w"));
    CODE(zoo_wget_children2(client.zh, "/w", note, &events, &names, &stat), ZOK);
    deallocate_String_vector(&names);
    CODE(zoo_delete(outside.zh, "/w/c", -1), ZOK);
    PASS(expect(&events, ZOO_CHILD_EVENT, "/w"));
    return NULL;
}

static const char *global_watch(void)
{
    CODE(zoo_exists(client.zh, "/w", 1, NULL), ZOK);
    CODE(set(outside.zh, "/w", "3"), ZOK);
    PASS(expect(&client.events, ZOO_CHANGED_EVENT, "/w"));
    return NULL;
}

static const char *removal(void)
{
    CODE(zoo_wexists(client.zh, "/w", note, &events, NULL), ZOK);
    CODE(zoo_remove_watches(client.zh, "/w", ZWATCHTYPE_DATA, note, &events, 0), ZOK);
    CODE(set(outside.zh, "/w", "4"), ZOK);
    CODE(zoo_exists(client.zh, "/w", 0, NULL), ZOK);
    pause_ms(50);
    NEED(quiet(&events));
    CODE(zoo_remove_all_watches(client.zh, "/w", ZWATCHTYPE_ANY, 0), ZNOWATCHER);
    return NULL;
}

void watches(void)
{
    events_init(&events);
    check("watch: data changed, once", data_watch);
    check("watch: exists, created, deleted", exists_watch);
    check("watch: children", child_watch);
    check("watch: told to the session's own watcher", global_watch);
    check("watch: removed", removal);
}
