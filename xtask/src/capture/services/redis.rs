//! Redis: redis-cli and redis-benchmark query a server that another redis-cli monitors.

use super::Service;
use crate::capture::logs::{Row, between, cut, read};
use crate::capture::scenes::Scene;
use crate::shell::Result;

pub const SERVICE: Service = Service {
    scene: Scene {
        name: "redis",
        shows: "redis-cli and redis-benchmark: strings, lists, hashes, a large value; nothing there, a wrong type, an unknown \
                command; RESP 3; a user, a wrong password; MULTI, EVAL, BLPOP; pipelines; SUBSCRIBE and PUBLISH; commands as lines",
        script: SCRIPT,
    },
    tools: &[("redis-server", "redis-server"), ("redis-cli", "redis-tools")],
    files: &[(
        "redis.conf",
        "bind 198.51.100.10\nsave \"\"\nprotected-mode no\nuser alice on >weir ~* &* +@all\n",
    )],
    stage: "",
    servers: &[
        ("server", "redis-server redis.conf > redis.log"),
        ("server", "sh -c \"sleep 1; exec redis-cli -h 198.51.100.10 MONITOR\" > redis-monitor.log"),
    ],
    listens: &["198.51.100.10:6379"],
    ask: "ip netns exec server redis-cli -h 198.51.100.10 INFO errorstats > redis-errors.log",
    logs: &[
        ("redis", "commands (redis)", commands),
        ("redis_replies", "replies (redis-cli)", replies),
        ("redis_errors", "kinds of errors (redis)", errors),
    ],
};

const SCRIPT: &str = "
r() { printf '%s\\t' \"$*\" >> redis-cli.out; redis-cli -h 198.51.100.10 \"$@\" | tr '\\n' ' ' >> redis-cli.out; echo >> redis-cli.out; }
R='redis-cli -h 198.51.100.10'
r PING; r SET level 3; r INCR level; r GET level; r GET nothing; r append name 'north weir'; r STRLEN name
r RPUSH weirs north south mill; r LRANGE weirs 0 -1; r LPOP level; r HSET mill depth 3 width 40; r HGETALL mill
r NONSENSE a b; r SET level; r EXPIRE level 100; r DEL level weirs; r EVAL 'return redis.call(\"GET\", KEYS[1])' 1 name
head -c 20000 /dev/zero | tr '\\0' w | $R -x SET flood >/dev/null; $R GET flood >/dev/null
printf 'MULTI\\r\\nSET a 1\\r\\nINCR a\\r\\nEXEC\\r\\nMULTI\\r\\nDISCARD\\r\\n' | $R --pipe >/dev/null
$R -3 HGETALL mill >/dev/null; $R -3 GET nothing >/dev/null
$R --user alice --pass weir --no-auth-warning GET name >/dev/null; $R --user alice --pass dry --no-auth-warning GET name >/dev/null 2>&1
$R BLPOP later 5 >/dev/null & sleep 0.3; $R RPUSH later on >/dev/null; wait
for n in 1 2 3 4 5 6 7 8 9; do printf 'SET drop%s %s\\r\\n' $n $n; done | $R --pipe >/dev/null
redis-benchmark -h 198.51.100.10 -c 1 -n 24 -P 8 -t set,get -q >/dev/null
timeout 2 $R SUBSCRIBE water >/dev/null & sleep 0.5; $R PUBLISH water rises >/dev/null; $R PUBLISH water falls >/dev/null; wait || true
bash -c 'exec 3<>/dev/tcp/198.51.100.10/6379; printf \"SET inline 1\\r\\nGET inline\\r\\nQUIT\\r\\n\" >&3; cat <&3' >/dev/null
";

/// `1795339614.200000 [0 192.0.2.10:51088] "SET" "level" "3"`: all commands except AUTH, unparsable ones, and
/// those in scripts.
fn commands() -> Result<Vec<Row>> {
    let mut rows = vec![];
    for line in read("redis-monitor.log")?.lines() {
        let port = between(line, " 192.0.2.10:", "] ");
        let Some((_, rest)) = line.split_once("] \"") else { continue };
        // redis-cli ends a pipe with bytes that are not text.
        if port.is_empty() || rest.starts_with("ECHO\" \"") || rest.starts_with("AUTH\"") {
            continue;
        }
        let words: Vec<&str> = rest.trim_end_matches('"').split("\" \"").collect();
        let word = |n: usize| words.get(n).unwrap_or(&"").replace("\\\"", "\"");
        rows.push(vec![
            ("client_port", port.to_string()),
            ("command", word(0).to_uppercase()),
            ("key", word(1)),
            ("value", word(2)),
            ("arguments", (words.len() - 1).to_string()),
        ]);
    }
    Ok(rows)
}

/// Commands of redis-cli, a tab, and its output, with a space after each line.
fn replies() -> Result<Vec<Row>> {
    let row = |line: &str| {
        let (command, reply) = line.split_once('\t')?;
        Some(vec![("command", command.to_string()), ("reply", reply.trim_end().to_string())])
    };
    Ok(read("redis-cli.out")?.lines().filter_map(row).collect())
}

/// `errorstat_WRONGTYPE:count=1`
fn errors() -> Result<Vec<Row>> {
    let log = read("redis-errors.log")?;
    let errors = log.lines().filter(|line| line.starts_with("errorstat_"));
    Ok(errors
        .map(|line| vec![("error", cut(line, "_", ":")), ("count", cut(line, "count=", "\r"))])
        .collect())
}
