"""A real Slurm of two nodes on one machine for the tests: cluster.sh runs in separate namespaces, whose end also ends all
processes in them."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

from waiting import LIMIT, wait_until  # noqa: E402

PROGRAMS = ["slurmctld", "slurmd", "srun", "sbatch", "munged", "unshare", "nsenter", "ip", "mpirun"]


def why_not():
    """Why no cluster can be had here, or None."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not at hand (slurm-wlm, munge, libpmix-dev, iproute2; jobs/setup.sh --tests)"
    if os.geteuid() != 0:
        return "a Slurm of our own needs root"
    if subprocess.run(["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "mount", "--make-rprivate", "/"],
                      capture_output=True).returncode != 0:
        return "namespaces are not permitted here"
    return None


class Cluster:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_slurm_"))
        self.folder.chmod(0o755)
        self.output = open(self.folder / "cluster.log", "wb")
        self.process = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "bash",
             str(HERE / "cluster.sh"), str(self.folder)],
            stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT)
        try:
            wait_until((self.folder / "up").exists, "two idle nodes", self.process, self.logs)
        except AssertionError:
            self.close()
            raise
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.inside = children[0]  # process 1 of the namespaces

    def logs(self):
        parts = []
        for path in [self.folder / "cluster.log", self.folder / "munge/log", *sorted((self.folder / "log").glob("*"))]:
            if path.exists():
                parts.append(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}")
        return "\n".join(parts)

    def environment(self, extra=None):
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "OMPI_", "PMIX_"))}
        environment["SLURM_CONF"] = str(self.folder / "slurm.conf")
        # Two hosts on one machine: TCP between them.
        environment.update({"OMPI_MCA_btl_tcp_if_include": "10.77.0.0/24", "OMPI_MCA_mpi_yield_when_idle": "1",
                            "OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false", "OMP_WAIT_POLICY": "passive"})
        environment.update(extra or {})
        return environment

    def run(self, *command, check=None, cwd=None, timeout=LIMIT, environment=None):
        """Runs a command of Slurm's on the control host; the finished process, output as text."""
        full = ["nsenter", "--target", self.inside, "--net", "--uts", "--mount", "--pid", "--ipc", *map(str, command)]
        # nsenter changes to the root folder of the namespace: `cwd` is entered there.
        if cwd is not None:
            full[1:1] = [f"--wd={cwd}"]
        done = subprocess.run(full, capture_output=True, text=True, timeout=timeout, env=self.environment(environment))
        if check is not None and done.returncode != check:
            raise AssertionError(f"{' '.join(map(str, command))}\nleft with {done.returncode}, not {check}:\n"
                                 f"{done.stdout}\n{done.stderr}\n{self.logs()}")
        return done

    def submit(self, *command, **options):
        """sbatch …; the job's number."""
        return self.run("sbatch", "--parsable", *command, check=0, **options).stdout.strip().split(";")[0]

    def state(self, job):
        text = self.run("scontrol", "show", "job", job, "--oneliner").stdout
        return dict(part.split("=", 1) for part in text.split() if "=" in part)

    def wait_for(self, job, states):
        """Until the job is in one of the states; its fields."""
        def reached():
            fields = self.state(job)
            return fields if fields.get("JobState") in states else None
        return wait_until(reached, f"job {job} in one of the states {states}",
                          output=lambda: f"{self.state(job)}\n{self.logs()}")

    def fail_node(self, number):
        """The node dies: slurmd and all that ran there."""
        keeper = (self.folder / f"node{number}").read_text().strip()
        find = f"readlink /proc/{keeper}/ns/uts"
        self.run("bash", "-c", f'space=$({find}); for p in /proc/[0-9]*; do p=${{p#/proc/}}; [ "$p" = {keeper} ] || '
                 f'[ "$(readlink /proc/$p/ns/uts)" != "$space" ] || kill -9 $p; done')

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)  # --kill-child takes process 1, and the namespace all others
        self.process.wait()
        self.output.close()
        shutil.rmtree(self.folder, ignore_errors=True)
