//! Child processes that cannot outlive the test that started them.
//!
//! Each child leads a process group of its own, which is killed when the guard is dropped. When the whole test process is killed no
//! destructor runs, so children also ask the kernel to be killed with their parent (`setpriv --pdeathsig`). The kernel means the parent
//! *thread*, hence the one thread below that starts them all and lives as long as the process.
use super::wait::{PATIENCE, eventually};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{LazyLock, Mutex, mpsc};
use std::time::Duration;

/// How a process is started.
#[derive(Debug, Clone)]
pub struct Start {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
}

impl Start {
    /// `name` is what messages and the log file call it.
    pub fn new(name: &str, program: impl Into<PathBuf>) -> Self {
        let (program, name) = (program.into(), name.to_owned());
        Self {
            name,
            program,
            args: Vec::new(),
            env: Vec::new(),
            directory: None,
        }
    }

    /// Under another name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }

    #[must_use]
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&self.program)
            .args(&self.args)
            .process_group(0);
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// Runs in the background, both outputs appended to `<logs>/<name>.log`.
    #[track_caller]
    pub fn spawn(&self, logs: &Path) -> ProcessGuard {
        let log = logs.join(format!("{}.log", self.name));
        let output = File::options().create(true).append(true).open(&log);
        let output = output.unwrap_or_else(|e| panic!("cannot write {}: {e}", log.display()));
        let mut command = self.command();
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a handle to spare"))
            .stderr(output);
        ProcessGuard {
            name: self.name.clone(),
            child: spawn(&self.name, command),
            log,
            status: None,
        }
    }

    /// Starts it with standard input and output as pipes to the caller, who ends it; standard error goes to the test's own.
    #[track_caller]
    pub fn piped(&self) -> Child {
        let mut command = self.command();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        spawn(&self.name, command)
    }

    /// Runs to its end with `input` on standard input and answers what it printed, however it ended.
    #[track_caller]
    pub fn output_with(&self, input: &[u8]) -> Output {
        let mut command = self.command();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = spawn(&self.name, command);
        let mut stdin = child.stdin.take().expect("piped");
        std::thread::scope(|scope| {
            // A program may end without reading its input; that shows in its exit code.
            scope.spawn(move || drop(std::io::Write::write_all(&mut stdin, input)));
            child
                .wait_with_output()
                .unwrap_or_else(|e| panic!("cannot wait for {}: {e}", self.name))
        })
    }

    #[track_caller]
    pub fn output(&self) -> Output {
        self.output_with(b"")
    }

    /// Runs to its end, which must be a good one; answers standard output.
    #[track_caller]
    pub fn run(&self) -> String {
        self.run_with(b"")
    }

    #[track_caller]
    pub fn run_with(&self, input: &[u8]) -> String {
        let output = self.output_with(input);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{} {:?} ended with {}\n{stdout}{stderr}",
            self.name,
            self.args,
            output.status
        );
        stdout
    }
}

type Order = (Command, mpsc::Sender<std::io::Result<Child>>);

fn spawn(name: &str, command: Command) -> Child {
    static SPAWNER: LazyLock<Mutex<mpsc::Sender<Order>>> = LazyLock::new(|| {
        let (orders, queue) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in queue {
                drop(reply.send(command.spawn()));
            }
        });
        Mutex::new(orders)
    });
    let (reply, answer) = mpsc::channel();
    SPAWNER
        .lock()
        .expect("no panic under the lock")
        .send((command, reply))
        .expect("the spawner lives");
    answer
        .recv()
        .expect("the spawner lives")
        .unwrap_or_else(|e| panic!("cannot start {name}: {e}"))
}

/// A running process and its group; killed when dropped. A failing test prints the end of its log.
#[derive(Debug)]
pub struct ProcessGuard {
    name: String,
    child: Child,
    log: PathBuf,
    status: Option<ExitStatus>,
}

impl ProcessGuard {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn rustix_pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// How it ended, when it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("our own child");
        }
        self.status
    }

    pub fn is_running(&mut self) -> bool {
        self.ended().is_none()
    }

    /// An error with the end of the log when the process has ended: for use in a probe that waits for it to be ready.
    pub fn must_run(&mut self) -> Result<(), String> {
        match self.ended() {
            None => Ok(()),
            Some(status) => panic!("{} ended with {status}:\n{}", self.name, self.log_tail(60)),
        }
    }

    pub fn signal(&self, signal: Signal) {
        if self.status.is_none() {
            // The process may be gone between two looks; whoever waits for its end will see that.
            let _gone = kill_process(self.rustix_pid(), signal);
        }
    }

    /// SIGTERM, then waits for the end.
    #[track_caller]
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait(PATIENCE)
    }

    /// SIGKILL to the whole group, then waits for the end.
    pub fn kill(&mut self) {
        if self.status.is_none() {
            let _gone = kill_process_group(self.rustix_pid(), Signal::KILL);
            self.status = self.child.wait().ok();
        }
    }

    #[track_caller]
    pub fn wait(&mut self, patience: Duration) -> ExitStatus {
        let name = self.name.clone();
        eventually(&format!("{name} to end"), patience, || {
            self.ended().ok_or("it still runs")
        })
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    pub fn log_tail(&self, lines: usize) -> String {
        let mut text = Vec::new();
        if let Ok(mut file) = File::open(&self.log) {
            let length = file.metadata().map_or(0, |m| m.len());
            let read = file
                .seek(SeekFrom::Start(length.saturating_sub(64 * 1024)))
                .and_then(|_| file.read_to_end(&mut text));
            if let Err(e) = read {
                return format!("({}: {e})", self.log.display());
            }
        }
        let text = String::from_utf8_lossy(&text);
        let skipped = text.lines().count().saturating_sub(lines);
        text.lines().skip(skipped).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        let ended = self.ended();
        self.kill();
        if std::thread::panicking() {
            let how = ended.map_or_else(
                || "was running".to_owned(),
                |status| format!("had ended with {status}"),
            );
            eprintln!(
                "--- {} {how}; the end of its log:\n{}\n---",
                self.name,
                self.log_tail(40)
            );
        }
    }
}
