// SPDX-License-Identifier: Apache-2.0

//! The middleware is loaded in different ways: late by another library (as librmw_implementation loads it), with
//! RTLD_LOCAL, closed and opened again, and with a fork after it is loaded.

use test_support::{command, preload};

use crate::{add_libraries, output, preloaded, Windows, START};

const USE: &str = "
def use():
    rmw.create_services() # the first call of the middleware, which loads it
    rmw.call(long(100), 0)
    rmw.serve(long(100), True)
    wait_for_windows()
";
const CLOSE: &str = "
for _ in range(3):
    load(os.RTLD_LOCAL)
    use()
    rmw.destroy_all()
    _ctypes.dlclose(rmw._handle)
";
const EARLY: &str = "
assert ctypes.CDLL(None).rmw_send_request(None, None, None) == 3, 'unsupported'
load(os.RTLD_LOCAL)
use()
";
/// The child has separate statistics, because the parent forks before it uses the middleware.
const FORK: &str = "
load(os.RTLD_LOCAL)
child = os.fork()
if child == 0:
    use()
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
use()
";

#[test]
fn a_middleware_is_measured_whenever_it_is_loaded() {
    let (Some(rmw), Some(late)) = (preload::library("null_rmw"), preload::library("late_rmw")) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(late, directory.path().join("librmw_implementation.so")).unwrap();
    let early = "topic_statistics: rmw_send_request is called and no library has it\n";
    for (script, count, expected) in [
        ("load(os.RTLD_LOCAL)\nuse()", 100.0, ""),
        (CLOSE, 300.0, ""),
        (EARLY, 100.0, early),
        (FORK, 200.0, ""),
    ] {
        let mut command =
            command("python3", &["-c", &[START, USE, script].concat(), "librmw_implementation.so"], 0);
        add_libraries(&mut command, directory.path());
        preloaded(&mut command, &[("PERIOD", "0.05")]);
        command.env("LATE_RMW", &rmw).env("PRINT_STATISTICS", "1");
        let (status, printed, errors) = output(&mut command);
        assert_eq!((status, &*errors), (Some(0), expected), "{script}");
        let windows = Windows(printed);
        for (source, metric) in [("/plan", "calls"), ("/plan", "responses"), ("/plan (2)", "requests")] {
            assert_eq!(windows.sum(source, metric), count, "{script}: {metric}");
        }
    }
}
