#!/usr/bin/env bash
# What Apache's script of this name does, as far as it is needed, on a host that is a folder: its address is not that of the
# machine but one of its own on the loopback interface, under the name that is in $HOSTS/hosts.
set -euo pipefail
cd "$(dirname "$0")/.."
pid=data/zookeeper_server.pid

running() { [ -e "$pid" ] && kill -0 "$(cat "$pid")" 2>/dev/null; }

case $1 in
start)
    if running; then
        echo "already running" >&2
        exit 1
    fi
    { cat conf/zoo.cfg && echo "clientPortAddress=$HOST" && echo admin.enableServer=false; } >conf/here.cfg
    # It ends with the test that needs it, however that ends.
    (
        java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djdk.net.hosts.file="$HOSTS/hosts" \
            -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dzookeeper.forceSync=no -cp "$JARS" \
            org.apache.zookeeper.server.quorum.QuorumPeerMain conf/here.cfg >>"$HOSTS/$HOST.log" 2>&1 </dev/null &
        echo $! >"$pid"
        while kill -0 "$OWNER" 2>/dev/null && kill -0 $! 2>/dev/null; do sleep 0.2; done
        kill -KILL $! 2>/dev/null
    ) >/dev/null 2>&1 &
    until running; do sleep 0.05; done
    ;;
stop)
    process=$(cat "$pid")
    kill "$process" || true
    for ((tries = 0; tries < 200; tries++)); do
        kill -0 "$process" 2>/dev/null || break
        sleep 0.05
    done
    if kill -KILL "$process" 2>/dev/null; then echo "$HOST did not stop in 10 s: killed" | tee -a "$HOSTS/$HOST.log" >&2; fi
    while kill -0 "$process" 2>/dev/null; do sleep 0.05; done
    rm -f "$pid"
    ;;
status)
    address=$(awk -v host="$HOST" '$2 == host { print $1 }' "$HOSTS/hosts")
    exec 3<>"/dev/tcp/$address/2181" || exit 1
    printf srvr >&3
    # A member that is about to change its role may accept a connection and never answer.
    timeout 2 grep '^Mode: ' <&3
    ;;
esac
