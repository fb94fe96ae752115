//! Profiles that are read back from stores: a store of our own answers by the published protocols of Pyroscope and Parca.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::path::Path;

use crate::common::session::Session;
use crate::common::store::{TestStore, leaves, now, periods};
use crate::common::{data, environment, installed, program, run};

const MINUTE: u64 = 60_000;
const KINDS: [&str; 2] = ["pyroscope", "parca"];
/// The recordings that are pushed, and how long ago.
const PUSHED: [(&str, &str, u64); 2] = [("fp-spin.data", "cart", 40), ("fp-sysmix.data", "shop", 5)];

/// Exports a recording in the format that `record --push` sends.
fn pprof(recording: &str, dir: &Path) -> Vec<u8> {
    let path = dir.join(recording).with_extension("pprof");
    run(program().arg("export").arg(data(recording)).args(["--to", "pprof", "-o"]).arg(&path));
    std::fs::read(&path).expect("written")
}

/// Starts a store that has two recordings; returns also the profile type of their periods.
fn filled(auth: Option<&'static str>) -> (TestStore, String) {
    let dir = tempfile::tempdir().expect("dir");
    let store = TestStore::start(auth);
    for (recording, service, ago) in PUSHED {
        store.keep(now() - ago * MINUTE, &[("service_name", service)], &pprof(recording, dir.path()));
    }
    let kind = store.types().into_iter().find(|kind| !kind.contains(":samples:")).expect("a type");
    (store, kind)
}

fn report(address: &str, more: &[&str]) -> BTreeMap<String, u64> {
    let mut command = program();
    command.args(["report", address, "-s", "sym", "--no-children", "--format", "json"]);
    periods(&run(command.args(more)))
}

/// Returns the periods of leaves in the profiles of some services.
fn pushed(store: &TestStore, kind: &str, services: &[&str]) -> BTreeMap<String, u64> {
    let kept = store.kept.lock().expect("unpoisoned");
    let wanted = kept.iter().filter(|one| services.contains(&one.labels["service_name"].as_str()));
    leaves(wanted.map(|one| &one.profile), kind)
}

#[test]
fn a_store_returns_what_was_pushed() {
    needs!(installed("curl"));
    let (store, kind) = filled(None);
    // A query may shorten the type.
    let short = kind.splitn(3, ':').take(2).collect::<Vec<_>>().join(":");
    for scheme in KINDS {
        let address = format!("{scheme}://{}/", store.address);
        let all = pushed(&store, &kind, &["cart", "shop"]);
        assert_eq!(report(&address, &["--query", &short]), all, "{scheme}");
        let cart = pushed(&store, &kind, &["cart"]);
        assert!(cart.len() < all.len(), "{cart:?}");
        let query = format!("{short}{{service_name=\"cart\"}}");
        assert_eq!(report(&address, &["--query", &query]), cart, "{scheme}");
        let inside = format!("{address}?query={query}&from=-50m");
        assert_eq!(report(&inside, &["--until", "-30m"]), cart, "{scheme}");
        let late = pushed(&store, &kind, &["shop"]);
        assert_eq!(report(&address, &["--query", &short, "--from", "-10m"]), late, "{scheme}");
        // Samples have the times of the store's series.
        assert_eq!(report(&address, &["--query", &short, "--time", "-10m,"]), late, "{scheme}");
    }
    // The series shows which parts of the time have profiles: each of the two is in one of at most four.
    let requests = store.requests.lock().expect("unpoisoned");
    let merges = requests.iter().filter(|line| line.contains("SelectMergeProfile")).count();
    assert!((10..=5 * 9).contains(&merges), "{merges}: {requests:?}");
}

/// The screen compares two addresses like the command line.
#[test]
fn two_services_are_compared_on_the_screen() {
    needs!(installed("curl"));
    let (store, kind) = filled(None);
    for scheme in KINDS {
        let address = format!("{scheme}://{}", store.address);
        let query = |service: &str| format!("{kind}{{service_name=\"{service}\"}}");
        let by_label = ["--query", &query("cart"), "--query", &query("shop")].map(str::to_owned);
        let by_time = ["--query", &kind, "--from", "-1h", "--from", "-20m", "--until", "-20m", "--until", "now"]
            .map(str::to_owned);
        // A function of each side, and of the other.
        let of = |service: &str| pushed(&store, &kind, &[service]);
        let (old, new) = (of("cart"), of("shop"));
        let apart = |one: &BTreeMap<String, u64>, other: &BTreeMap<String, u64>| {
            let most = one.iter().filter(|(name, _)| !other.contains_key(*name)).max_by_key(|(_, weight)| **weight);
            most.expect("a function of one side").0.chars().take(20).collect::<String>()
        };
        let (gone, grown) = (apart(&old, &new), apart(&new, &old));
        for options in [&by_label[..], &by_time[..]] {
            let mut args = vec!["open", &address, &address];
            args.extend(options.iter().map(String::as_str));
            let mut session = Session::start(&args, 60, 200);
            session.wait_for_line(&[" pp ", &grown]).wait_for_line(&[" pp ", &gone]);
            session.keys("q");
            assert_eq!(session.end().code(), Some(0), "{options:?}");
        }
    }
}

#[test]
fn two_times_and_two_services_are_compared() {
    needs!(installed("curl"));
    let (store, kind) = filled(None);
    for scheme in KINDS {
        let address = format!("{scheme}://{}", store.address);
        let diff = |more: &[&str]| {
            let mut command = program();
            command.args(["diff", &address, &address, "--format", "json", "-s", "sym"]);
            let report: serde_json::Value = serde_json::from_slice(&run(command.args(more)).stdout).expect("json");
            ["old", "new"].map(|side| report[side]["period"].as_u64().expect("a period"))
        };
        let total = |service: &str| pushed(&store, &kind, &[service]).values().sum::<u64>();
        let want = [total("cart"), total("shop")];
        let times = ["--query", &kind, "--from", "-1h", "--from", "-20m", "--until", "-20m", "--until", "now"];
        assert_eq!(diff(&times), want, "{scheme}");
        // Rates are of the requested times: a single profile in each spans none.
        let seconds = {
            let mut command = program();
            command.args(["diff", &address, &address, "--format", "json", "--per", "second"]);
            let report: serde_json::Value = serde_json::from_slice(&run(command.args(times)).stdout).expect("json");
            ["old", "new"].map(|side| report[side]["seconds"].as_f64().expect("a number").round())
        };
        assert_eq!(seconds, [2400.0, 1200.0], "{scheme}");
        let query = |service: &str| format!("{kind}{{service_name=\"{service}\"}}");
        assert_eq!(diff(&["--query", &query("cart"), "--query", &query("shop")]), want, "{scheme}");
    }
}

/// Runs a report that fails; returns its exit code and its message.
fn failed(args: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = program().arg("report").args(args).envs(env.iter().copied()).output().expect("runs");
    assert!(!output.status.success(), "{args:?}");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_wrong_query_is_answered_with_what_the_store_has() {
    needs!(installed("curl"));
    let (store, kind) = filled(None);
    for scheme in KINDS {
        let address = format!("{scheme}://{}", store.address);
        let wrong = |query: &str, parts: &[&str]| {
            let (code, said) = failed(&[&address, "--query", query], &[]);
            assert!(code == Some(2) && parts.iter().all(|part| said.contains(part)), "{query}: {said}"); // words: ok
        };
        let (code, said) = failed(&[&address], &[]);
        let parts = ["--query is missing", kind.as_str(), "labels: service_name"];
        assert!(code == Some(2) && parts.iter().all(|part| said.contains(part)), "{said}"); // words: ok
        wrong("process_cpv:x", &["unknown profile type process_cpv:x", kind.as_str(), "labels: service_name"]);
        wrong("process_cpu", &["more than one type", kind.as_str()]);
        wrong(&format!("{kind}{{service=\"cart\"}}"), &["no label is named service", "service_name"]);
        wrong(&format!("{kind}{{service_name=\"carts\"}}"), &["service_name=\"carts\"; nearest: cart", "cart, shop"]);
        wrong(&format!("{kind}{{"), &["expected TYPE"]);
        let (code, said) = failed(&[&address, "--query", &kind, "--from", "-20m", "--until", "-10m"], &[]);
        assert!(code == Some(2) && said.contains("from -20m until -10m"), "{said}"); // words: ok
        let (code, said) = failed(&[&address, "--query", &kind, "--from", "-1x"], &[]);
        assert!(code == Some(2) && said.contains("--from -1x"), "{said}"); // words: ok
    }
    let data = data("fp-spin.data");
    let (code, said) = failed(&[&data.to_string_lossy(), "--query", &kind], &[]);
    assert!(code == Some(2) && said.contains("need a store's address"), "{said}"); // words: ok
}

#[test]
fn a_token_opens_a_store() {
    needs!(installed("curl"));
    let (store, kind) = filled(Some("bearer t0ken"));
    for scheme in KINDS {
        let address = format!("{scheme}://{}", store.address);
        let (code, said) = failed(&[&address, "--query", &kind], &[("PERFPROF_STORE_AUTH", "Bearer wr0ng")]);
        assert!(code == Some(1) && said.contains("PERFPROF_STORE_AUTH") && !said.contains("wr0ng"), "{said}"); // words: ok
        let mut command = program();
        command.args(["report", &address, "--query", &kind, "-s", "sym", "--no-children", "--format", "json"]);
        let found = periods(&run(command.env("PERFPROF_STORE_AUTH", "Bearer t0ken")));
        assert_eq!(found, pushed(&store, &kind, &["cart", "shop"]), "{scheme}");
    }
}

/// Runs a command line of a shell up to the cursor through the program; returns the texts that complete its end.
fn completed(shell: &str, line: &str) -> Vec<String> {
    let output = run(program().args(["completions", shell, "--line", line]));
    assert!(output.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

#[test]
fn a_shell_completes_types_labels_and_values() {
    needs!(installed("curl"));
    let (store, _) = filled(None);
    for scheme in KINDS {
        let open = format!("perfprof-tui open {scheme}://{} -q", store.address);
        let types = completed("bash", &format!("{open} "));
        assert_eq!(types.len(), store.types().len(), "{scheme}: {types:?}");
        let kind = &types[0];
        assert_eq!(completed("bash", &format!("{open} '{kind}")), [kind.clone(), format!("{kind}{{")]);
        // The only label, with its values.
        let values = ["cart", "shop"].map(|value| format!("{kind}{{service_name=\"{value}\""));
        assert_eq!(completed("bash", &format!("{open} '{kind}{{")), values, "{scheme}");
        let whole = ["}", ","].map(|end| format!("--query={kind}{{service_name=\"cart\"{end}"));
        let fish = format!("perfprof-tui report {scheme}://{} --query='{kind}{{service_name=\"c", store.address);
        assert_eq!(completed("fish", &fish), whole, "{scheme}");
        // A time without profiles has no types.
        let early = format!("perfprof-tui open {scheme}://{} --from nonsense -q ", store.address);
        assert_eq!(completed("bash", &early), [""; 0]);
    }
}

/// A store that fails, and one that does not answer, complete nothing and print nothing.
#[test]
fn a_shell_does_not_see_the_failures_of_stores() {
    needs!(installed("curl"));
    let silent = TcpListener::bind("127.0.0.1:0").expect("bind");
    let silent = silent.local_addr().map(|address| (silent, address)).expect("address");
    for address in [server("500 Internal Server Error", b"{}", 2), server("200 OK", b"{", 99), silent.1.to_string()] {
        for line in [format!("perfprof-tui open parca://{address} -q "), format!("perfprof-tui open {address} -q ")] {
            assert_eq!(completed("zsh", &line), [""; 0], "{line}");
        }
    }
}

/// bash runs the script's function, which inserts what it prints.
#[test]
fn bash_completes_queries_by_the_script() {
    needs!(installed("curl"), installed("bash"));
    let (store, _) = filled(None);
    let dir = tempfile::tempdir().expect("dir");
    let script = dir.path().join("script");
    std::fs::write(&script, run(program().args(["completions", "bash"])).stdout).expect("written");
    let completed = |line: &str| {
        let text = "source \"$0\"; COMP_LINE=$1; COMP_POINT=${#1}; COMP_WORDS=($1); \
                    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); \
                    COMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'; last=${COMP_WORDS[COMP_CWORD]}; \
                    _perfprof__tui_or_store perfprof-tui \"$last\" \"${COMP_WORDS[COMP_CWORD - 1]}\"; \
                    printf '%s\\n' \"${COMPREPLY[@]}\"";
        let path = std::env::var("PATH").expect("PATH");
        let own = Path::new(env!("CARGO_BIN_EXE_perfprof-tui")).parent().expect("a folder").display().to_string();
        let mut command = std::process::Command::new("bash");
        command.env_clear().envs(environment());
        command.env("PATH", format!("{own}:{path}")).args(["-c", text]).arg(&script).arg(line);
        String::from_utf8(run(&mut command).stdout).expect("UTF-8").lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let open = format!("perfprof-tui open pyroscope://{} -q", store.address);
    let types = store.types();
    assert_eq!(completed(&format!("{open} '")), types);
    // Without quotes, bash replaces the part after the last colon.
    let ends: Vec<&str> = types.iter().filter_map(|kind| kind.strip_prefix("process_cpu:")).collect();
    assert_eq!(completed(&format!("{open} process_cpu:")), ends);
    assert_eq!(completed("perfprof-tui open --tog"), ["--together"], "other words are completed as before");
}

/// A server that answers each request with this status and body; the stated length may be longer.
fn server(status: &'static str, body: &'static [u8], length: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let _ = stream.read(&mut [0; 4096]);
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
            // Unread bytes would reset the connection.
            let _ = stream.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    address
}

#[test]
fn other_servers_are_named_and_hostile_ones_are_bounded() {
    needs!(installed("curl"));
    let page: &[u8] = b"<html>\x1b[2J</html>";
    let full = b"{\"code\":2,\"message\":\"\\u001b[31mfull\"}";
    let types = b"{\"types\":[{\"name\":\"\\u001b[2Ja\"},{\"name\":\"b\\nc\"}]}";
    for scheme in KINDS {
        let of = |status, body: &'static [u8], length| {
            let (code, said) = failed(&[&format!("{scheme}://{}", server(status, body, length))], &[]);
            assert!(!said.contains('\x1b'), "{said:?}");
            (code, said)
        };
        let (code, said) = of("404 Not Found", page, page.len());
        assert!(code == Some(1) && said.contains("server: it answers HTTP 404"), "{said}"); // words: ok
        let (code, said) = of("200 OK", page, page.len());
        assert!(code == Some(1) && said.contains("the usual port is"), "{said}"); // words: ok
        let (code, said) = of("500 Internal Server Error", full, full.len());
        assert!(code == Some(1) && said.contains("full") && said.contains("HTTP 500"), "{said}"); // words: ok
        let (code, said) = of("200 OK", types, types.len());
        assert!(code == Some(2) && said.contains("no profiles"), "{said}"); // words: ok
        // The connection ends before the stated length.
        assert_eq!(of("200 OK", b"{", 1000).0, Some(1));
    }
    let closed = TcpListener::bind("127.0.0.1:0").expect("bind").local_addr().expect("address");
    let (code, said) = failed(&[&format!("parca://{closed}")], &[]);
    assert!(code == Some(1) && said.contains("check the address"), "{said}"); // words: ok
}
