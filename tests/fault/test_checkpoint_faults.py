"""Faults around checkpoints, each caused for real: ranks killed at any instant of saving, damaged checkpoints, full disks, two
jobs in one directory. Nothing is lost but the steps since the last checkpoint, and in reproducible mode a run that was
disturbed ends with the bits of one that was not.

BERT_HPC_KILLS=1000 makes the long version of the kills; 30 in the usual one."""

import hashlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import h5py

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
import program
import saved
from program import BUILD, MPIRUN
from waiting import LIMIT, wait_for_pauses, wait_until, wait_until_recorded

KILLS = int(os.environ.get("BERT_HPC_KILLS", "30"))


def weights(directory):
    return hashlib.sha256((directory / "model" / "model.safetensors").read_bytes()).hexdigest()


def checkpoints(directory):
    return sorted(path.name for path in (directory / "checkpoints").glob("step-*"))


class Faults(program.Case):
    rows = 200

    def path(self, name, directory=None, steps=60, **tables):
        directory = directory or self.work.folder / name
        run = {"directory": str(directory), "reproducible": True} | tables.pop("run", {})
        data = {"validation": None} | tables.pop("data", {})
        return self.work.input(f"{name}.toml", run=run, data=data,
                               **({"schedule": {"epochs": None, "steps": steps}} | tables)), pathlib.Path(directory)

    def launch(self, path, ranks, *arguments):
        command = [str(BUILD / "bert_hpc"), str(path), *arguments]
        if ranks > 1:
            command = [MPIRUN, "-n", str(ranks), *command]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=dict(os.environ, OMP_NUM_THREADS="1"), start_new_session=True)

    def whole(self, steps=60):
        """Weights of an undisturbed run."""
        path, directory = self.path(f"whole{steps}", steps=steps)
        if not (directory / "model").exists():
            program.run("bert_hpc", path, threads=1, check=0)
        return weights(directory)

    def check_folder(self, directory):
        """Checks at any moment that each named checkpoint is complete and that the pointers name existing checkpoints."""
        folder = directory / "checkpoints"
        if not folder.exists():
            return
        for name in checkpoints(directory):
            with h5py.File(folder / name / "manifest.h5") as file:
                self.assertEqual(file.attrs["step"], int(name[5:]))
                for rank in file["files/ranks"][:]:
                    self.assertTrue((folder / name / f"rank-{rank:05d}.h5").exists(), name)
        if (folder / "latest").exists():
            self.assertIn((folder / "latest").read_text().strip(), checkpoints(directory))

    def kill_one(self, path, directory, ranks, draw):
        """Starts the run and kills one of its ranks: most often while checkpoints are being saved, now and then while it
        starts."""
        process = self.launch(path, ranks)
        marker = path.name.encode()
        before = checkpoints(directory)
        if draw.random() < 0.8:
            wait_until(lambda: checkpoints(directory) != before, "a checkpoint", process,
                       lambda: "".join(process.communicate()) if process.poll() is not None else "")
            time.sleep(draw.uniform(0, 0.06))
        else:
            time.sleep(draw.uniform(0, 0.8))
        alive = wait_until(lambda: program.ranks_of(marker), "ranks", process)
        os.kill(draw.choice(alive), signal.SIGKILL)
        try:
            out, err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            left = program.ranks_of(marker)
            states = [pathlib.Path(f"/proc/{pid}/wchan").read_text() for pid in [*left, process.pid]]
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if left:
                self.fail(f"after one of {alive} was killed: ranks {left} and launcher {process.pid} wait in {states}")
            return  # Open MPI's mpirun 4.1 was seen to wait in a futex after its ranks had ended, on a busy machine
        # The launcher may end before the last rank's memory is freed.
        wait_until(lambda: program.ranks_of(marker) == [], "the end of all ranks")
        self.assertEqual(process.returncode, 128 + signal.SIGKILL if ranks > 1 else -signal.SIGKILL, out + err)

    def test_ranks_killed_at_any_instant(self):
        """A checkpoint every step, so that most instants are within the saving of one. Each run is killed up to ten times, one
        rank or another, on one grid or another, and then resumes and finishes."""
        draw = random.Random(17)
        grids = [(1, {}), (1, {}), (2, {"zero": 1}), (2, {"pipeline": 2}), (2, {"zero": 0})]
        schedule = {"name": "constant", "epochs": None, "warmup_ratio": None}  # so that the run's length changes nothing
        killed = progressed = number = 0
        while killed < KILLS:
            name = f"killed{number}"
            number += 1
            last = 0
            for _ in range(min(10, KILLS - killed)):
                ranks, parallel = draw.choice(grids)
                path, directory = self.path(name, parallel=parallel, checkpoint={"every_steps": 1},
                                            schedule=schedule | {"steps": 1000000000})
                self.kill_one(path, directory, ranks, draw)
                killed += 1
                self.check_folder(directory)
                found = checkpoints(directory)
                now = int(found[-1][5:]) if found else 0
                self.assertGreaterEqual(now, last, "a checkpoint was lost")
                progressed += now > last
                last = now
            given = {"parallel": {}, "schedule": schedule | {"steps": last + 3}}
            path, directory = self.path(name, **given)
            done = program.run("bert_hpc", path, threads=1, check=0)
            if last > 0:
                self.assertIn(f"resuming from step {last:,} (", done.stdout)
            path, undisturbed = self.path(f"{name}-undisturbed", **given)
            program.run("bert_hpc", path, threads=1, check=0)
            self.assertEqual(weights(directory), weights(undisturbed))
            for column in ("step", "loss"):
                with h5py.File(directory / "metrics.h5") as file, h5py.File(undisturbed / "metrics.h5") as other:
                    self.assertEqual(list(file[f"steps/{column}"]), list(other[f"steps/{column}"]))
        self.assertGreater(progressed, KILLS // 3)

    def test_killed_while_any_of_its_files_goes_to_the_disk(self):
        library = BUILD / "tests/libfailing_files.so"
        if not library.exists():
            self.skipTest("the failing disk is not part of this build")
        path, whole = self.path("files", steps=8, checkpoint={"every_steps": 4})
        program.run("bert_hpc", path, threads=1, check=0)
        names = sorted({".lock"} | {path.name for path in whole.rglob("*") if path.is_file()})
        killed = []
        for number, name in enumerate(names):
            with self.subTest(name):
                path, directory = self.path(f"file{number}", steps=8, checkpoint={"every_steps": 4})
                held = self.work.folder / f"held{number}"
                held.touch()
                variables = {"OMP_NUM_THREADS": "1", "LD_PRELOAD": str(library), "BERT_HPC_HOLD_SYNC": f"/{name}={held}"}
                process = subprocess.Popen([str(BUILD / "bert_hpc"), str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                           text=True, env=os.environ | variables, start_new_session=True)
                self.addCleanup(program.end, process, path)
                reached = pathlib.Path(f"{held}.reached")
                wait_until(lambda: reached.exists() or process.poll() is not None, f"'{name}' or the end")
                if not reached.exists():  # log.txt, which is not forced
                    self.assertEqual(process.wait(), 0, process.communicate()[0])
                    continue
                process.kill()
                process.communicate()
                killed.append(name)
                program.run("bert_hpc", path, threads=1, check=0)
                self.assertEqual(weights(directory), weights(whole))
        self.assertIn("input.toml", killed)
        self.assertGreater(len(killed), len(names) // 2, killed)

    def test_a_killed_run_ends_with_the_bits_of_one_that_was_not(self):
        draw = random.Random(5)
        path, directory = self.path("bits", checkpoint={"every_steps": 2})
        for ranks in (2, 1, 2):
            process = self.launch(path, ranks)
            marker = path.name.encode()
            begin = len(checkpoints(directory)) and checkpoints(directory)[-1]
            latest = lambda: len(checkpoints(directory)) and checkpoints(directory)[-1]
            wait_until(lambda: process.poll() is not None or (latest() != begin and draw.random() < 0.3), "a checkpoint or the end")
            for rank in program.ranks_of(marker)[-1:]:
                os.kill(rank, signal.SIGKILL)
            process.communicate(timeout=LIMIT)
            self.check_folder(directory)
        program.run("bert_hpc", path, ranks=2, threads=1, check=0)
        self.assertEqual((directory / ".status").read_text(), "finished\n")
        self.assertEqual(weights(directory), self.whole())

    def stopped(self, name, **tables):
        """A run with checkpoints of steps 6, 8 and 10, as if killed then."""
        path, directory = self.path(name, steps=10, checkpoint={"every_steps": 2, "keep": 3}, **tables)
        program.run("bert_hpc", path, ranks=2, threads=1, check=0)
        (directory / ".status").write_text("running\n")
        return self.path(name, steps=10, **tables)

    def test_damaged_checkpoints_are_passed_over(self):
        draw = random.Random(3)
        whole = self.whole(10)

        def flip(file):
            content = bytearray(file.read_bytes())
            bit = draw.randrange(8 * len(content))
            content[bit // 8] ^= 1 << bit % 8
            file.write_bytes(content)

        damages = {"flip": flip, "truncate": lambda file: os.truncate(file, file.stat().st_size // 2),
                   "empty": lambda file: os.truncate(file, 0), "remove": os.remove,
                   "other": lambda file: shutil.copy(file.parent.parent / "step-00000006" / file.name, file)}
        path, directory = self.stopped("damaged")
        whole_run = directory.rename(self.work.folder / "not-damaged")
        for how, damage in damages.items():
            for victim in ("manifest.h5", "rank-00000.h5", "rank-00001.h5", "metrics.journal"):
                with self.subTest(how=how, victim=victim):
                    shutil.copytree(whole_run, directory)
                    damage(directory / "checkpoints" / "step-00000010" / victim)
                    damage(directory / "checkpoints" / "step-00000008" / victim)
                    done = program.run("bert_hpc", path, ranks=2, threads=1, check=0)
                    self.assertIn("resuming from step 6", done.stdout)
                    self.assertEqual(done.stdout.count("is skipped"), 2)
                    self.assertEqual(weights(directory), whole)
                    self.assertTrue((directory / "checkpoints" / "set-aside-step-00000010").exists())
                    shutil.rmtree(directory)

    def test_a_damaged_journal_does_not_stop_a_run(self):
        """Where the checkpoint, of an older version, has no metric history either. With it: integration/test_checkpoint.py."""
        for name, damage in (("emptied", lambda journal: journal.write_bytes(b"")), ("gone", lambda journal: journal.unlink())):
            path, directory = self.stopped(name)
            saved.without_history(directory / "checkpoints" / "step-00000010")
            older = (directory / "metrics.h5").read_bytes()
            damage(directory / "metrics.journal")
            done = program.run("bert_hpc", path, "--set", "schedule.steps=12", ranks=2, threads=1, check=0)
            self.assertIn("resuming from step 10 (", done.stdout)
            self.assertEqual("metrics.journal.damaged" in done.stdout, name == "emptied")
            with h5py.File(directory / "metrics.h5") as file:
                self.assertEqual(list(file["steps/step"]), [11, 12])
            kept = directory / "metrics.before-step-11.h5"
            self.assertIn(f"are kept in '{kept}'", done.stdout)
            self.assertEqual(kept.read_bytes(), older)
            program.run("bert_hpc", path, "--overwrite", threads=1, check=0)
            self.assertFalse((directory / "metrics.journal.damaged").exists() or kept.exists())

    def test_a_journal_that_is_cut_while_the_run_continues(self):
        """The run still writes its checkpoints, without the metric history, and reports this once. A journal that has lost
        its name stays in use."""
        for name, harm, lost in (("unlinked", os.remove, False), ("cut", lambda journal: os.truncate(journal, 100), True)):
            path, directory = self.path(name, steps=1000000000, checkpoint={"every_steps": 5})
            process = self.launch(path, 1)
            self.addCleanup(process.kill)
            number = "step-0"
            for _ in range(3):
                newest = lambda: (checkpoints(directory) or ["step-0"])[-1]
                wait_until(lambda: newest() != number, "a checkpoint", process)
                number = newest()
                if (directory / "metrics.journal").exists():
                    harm(directory / "metrics.journal")
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, 75, out + err)
            self.assertEqual(out.count("that checkpoint holds no metric history"), 1 if lost else 0, out)
            last = checkpoints(directory)[-1]
            self.assertEqual((directory / "checkpoints" / last / "metrics.journal").exists(), not lost)
            done = program.run("bert_hpc", path, "--set", f"schedule.steps={int(last[5:]) + 2}", threads=1, check=0)
            self.assertEqual("come from the checkpoint" in done.stdout, not lost)
            with h5py.File(directory / "metrics.h5") as file:
                self.assertEqual(file["steps/step"][0] == 1, not lost)
                self.assertEqual(file["steps/step"][-1], int(last[5:]) + 2)

    def test_no_whole_checkpoint_is_an_error_that_says_so(self):
        path, directory = self.stopped("none")
        for file in directory.glob("checkpoints/step-*/manifest.h5"):
            os.truncate(file, 700)
        done = program.run("bert_hpc", path, ranks=2, threads=1, check=4)
        # The error names the first checkpoint that was tried, the newest one, and its damage.
        newest = directory / "checkpoints" / "step-00000010" / "manifest.h5"
        self.assertRegex(done.stderr, f"none of the checkpoints.*{newest}.*truncated")
        self.assertIn("--overwrite", done.stderr)
        self.assertEqual(len(checkpoints(directory)), 3)  # all checkpoints are kept
        program.run("bert_hpc", path, "--overwrite", ranks=2, threads=1, check=0)

    def test_pointers_lead_nowhere_else(self):
        outside = self.work.folder / "outside"
        shutil.copytree(self.stopped("source")[1] / "checkpoints" / "step-00000006", outside / "step-00000020")
        before = sorted((file, file.read_bytes()) for file in outside.rglob("*.h5"))
        path, directory = self.stopped("pointers")
        (directory / "checkpoints" / "latest").write_text("../../outside/step-00000020\n")
        (directory / "checkpoints" / "best").write_text("x" * 10000)
        done = program.run("bert_hpc", path, "--set", "schedule.steps=11", ranks=1, threads=1, check=0)
        self.assertIn("resuming from step 10 (" + str(directory / "checkpoints" / "step-00000010"), done.stdout)
        self.assertNotIn("warning", done.stdout)
        self.assertEqual((directory / "checkpoints" / "latest").read_text(), "step-00000010\n")
        self.assertEqual(before, sorted((file, file.read_bytes()) for file in outside.rglob("*.h5")))

    def test_links_out_of_checkpoints_are_not_followed(self):
        for name, part in (("folder", "."), ("manifest", "manifest.h5"), ("file", "rank-00001.h5")):
            path, directory = self.stopped(f"linked-{name}")
            victim = directory / "checkpoints" / "step-00000010" / part
            outside = self.work.folder / f"outside-{name}"
            shutil.move(victim, outside)
            victim.symlink_to(outside)
            before = outside.lstat()
            there = sorted((directory / "checkpoints").iterdir())
            done = program.run("bert_hpc", path, ranks=2, threads=1, check=4)
            self.assertIn(f"'{victim}': it is a symbolic link", done.stderr)
            self.assertEqual(before, outside.lstat())  # its time too
            # It is not damaged: no older one replaces it.
            self.assertEqual(there, sorted((directory / "checkpoints").iterdir()))
            noted = program.run("bert_hpc", path, "--validate", ranks=2, threads=1, check=0)
            self.assertIn("it is a symbolic link", noted.stdout)

    def test_a_link_to_a_checkpoint_that_the_user_names_is_followed(self):
        _, directory = self.stopped("named")
        mine = self.work.folder / "mine"
        mine.mkdir()
        (mine / "step-00000008").symlink_to(directory / "checkpoints" / "step-00000008")
        for name, named in (("named-elsewhere", "elsewhere"), ("named", "own")):
            path, _ = self.path(name, steps=10, run={"resume": f"{mine}/step-00000008/"})
            done = program.run("bert_hpc", path, ranks=2, threads=1, check=0)
            self.assertIn("resuming from step 8 (", done.stdout)

    def test_a_run_directory_that_is_a_link(self):
        real = self.work.folder / "real"
        (real / "below").mkdir(parents=True)
        (self.work.folder / "link").symlink_to(real)
        for directory in (self.work.folder / "link", self.work.folder / "link" / "below" / "run"):
            path, directory = self.path("linked", directory=directory, steps=4, checkpoint={"every_steps": 2})
            program.run("bert_hpc", path, ranks=2, threads=1, check=0)
            (directory / ".status").write_text("running\n")
            done = program.run("bert_hpc", path, "--set", "schedule.steps=5", ranks=2, threads=1, check=0)
            self.assertIn("resuming from step 4 (", done.stdout)
        self.assertTrue((real / "below" / "run" / "checkpoints" / "step-00000004").exists())

    def test_checkpoints_that_are_a_link(self):
        go_on = ("--set", "schedule.steps=11", "--set", "checkpoint.every_steps=1", "--set", "checkpoint.keep=1")
        owner, others = self.stopped("owner")
        path, directory = self.stopped("leads-to-another-run")
        scratch = self.work.folder / "scratch"
        shutil.move(directory / "checkpoints", scratch)
        # Another run's checkpoints: the run changes no file there, in any state of the other run and with any options.
        (directory / "checkpoints").symlink_to(others / "checkpoints")
        (others / "checkpoints" / ".writing-step-00000099").mkdir()
        before = sorted((others / "checkpoints").rglob("*"))
        resume = ("--overwrite", "--set", f'run.resume="{scratch / "step-00000010"}"')
        for arguments, ranks in ((go_on, 2), (resume, 1), (("--validate",), 1)):
            done = program.run("bert_hpc", path, *arguments, ranks=ranks, threads=1, check=2)
            self.assertIn(f"{directory}/checkpoints is a link to the checkpoints of another run, {others},", done.stderr)
            self.assertEqual(before, sorted((others / "checkpoints").rglob("*")))
        # On another disk, on purpose: as if there were no link, and no other run may use it then.
        (directory / "checkpoints").unlink()
        shutil.rmtree(others / "checkpoints")
        for run in (directory, others):
            (run / "checkpoints").symlink_to(scratch)
        done = program.run("bert_hpc", path, *go_on, ranks=2, threads=1, check=0)
        self.assertIn("resuming from step 10 (", done.stdout)
        self.assertEqual(checkpoints(directory), ["step-00000011"])
        done = program.run("bert_hpc", owner, *go_on, ranks=2, threads=1, check=2)
        self.assertIn(f"another run, {directory},", done.stderr)
        self.assertEqual(checkpoints(directory), ["step-00000011"])

    def test_too_little_space_at_the_start(self):
        disk = program.small_disk(self, 400)
        path, directory = self.path("small", directory=disk / "run")
        done = program.run("bert_hpc", path, ranks=2, threads=1, check=4)
        self.assertIn("too little space", done.stderr)
        self.assertFalse((directory / "metrics.h5").exists())

    def test_a_disk_that_fills_up(self):
        # A checkpoint takes about 0.3 MiB; the first ones fit, then the test fills the disk.
        disk = program.small_disk(self, 9000)
        filler = open(disk / "filler", "wb", buffering=0)  # opened, and with room to give back, before the run takes any
        self.addCleanup(filler.close)
        filler.write(bytes(1 << 20))
        path, directory = self.path("full", directory=disk / "run", steps=1000000000, checkpoint={"every_steps": 20})
        process = self.launch(path, 2)
        wait_until(lambda: len(checkpoints(directory)) >= 2, "two checkpoints", process)
        try:
            while True:
                filler.write(bytes(1 << 14))
        except OSError:
            pass
        # A checkpoint that gives way to a newer one frees its space: the run fills it again, or ends.
        for rank in program.ranks_of(path.name.encode())[:1]:
            os.kill(rank, signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT)
        # Either the checkpoint or the metrics found the disk full first; both are an error of files.
        self.assertEqual(process.returncode, 4, out + err)
        self.check_folder(directory)
        self.assertGreater(len(checkpoints(directory)), 0)
        filler.close()
        os.remove(disk / "filler")
        last = int(checkpoints(directory)[-1][5:])
        done = program.run("bert_hpc", path, "--set", f"schedule.steps={last + 10}", ranks=1, threads=1, check=0)
        self.assertIn(f"resuming from step {last:,} (", done.stdout)

    def test_too_little_space_for_checkpoints_on_the_way(self):
        """A checkpoint would fit, but would leave no space for other files: the run does not begin it."""
        disk = program.small_disk(self, 9000)
        filler = open(disk / "filler", "wb", buffering=0)
        self.addCleanup(filler.close)
        # A line a step, in the log and the journal, would fill the disk in a second or two.
        # Warnings would too, if this test were slow to see the third of them.
        path, directory = self.path("tight", directory=disk / "run", steps=100000, checkpoint={"every_steps": 100},
                                    log={"every_steps": 1000})
        process = self.launch(path, 2)
        self.addCleanup(process.kill)
        wait_until(lambda: len(checkpoints(directory)) >= 2, "two checkpoints", process)
        files = {file.name: file.stat().st_size for file in (directory / "checkpoints" / checkpoints(directory)[0]).iterdir()}
        size = sum(files.values())
        self.assertLess(size - files["metrics.journal"], 400000)  # the journal grows until this test looks
        log = directory / "log.txt"

        def missing_ones():
            status = os.statvfs(disk)
            more = status.f_bavail * status.f_frsize - size - 600000  # of the 1 MiB that is to stay free
            if more > 50000:
                filler.write(bytes(more))
            found = re.findall(r"warning: .*step (\d+).*was not written.*too little space", log.read_text())
            return found if len(found) >= 3 else None
        missing = wait_until(missing_ones, "three checkpoints that are not written", process, log)
        steps = [int(step) for step in missing[:3]]
        self.assertEqual(steps, [steps[0], steps[0] + 100, steps[0] + 200])  # each failure is reported
        self.assertFalse({f"step-{step:08d}" for step in steps} & set(checkpoints(directory)))
        filler.truncate(0)  # and once there is room, the next one is written
        wait_until(lambda: checkpoints(directory)[-1] > f"step-{steps[-1]:08d}", "the next checkpoint", process, log)
        for rank in program.ranks_of(path.name.encode())[:1]:
            os.kill(rank, signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 75, out + err)
        self.assertGreater(checkpoints(directory)[-1], f"step-{steps[-1]:08d}")

    def test_room_for_one_checkpoint_is_enough_for_ranks_that_come_late(self):
        model = {"hidden_size": 384, "num_attention_heads": 4}
        path, directory = self.path("room", steps=2, checkpoint={"every_steps": 2}, model=model)
        program.run("bert_hpc", path, ranks=2, threads=1, check=0)
        size = sum(file.stat().st_size for file in (directory / "checkpoints" / "step-00000002").iterdir())
        # The run also requires a reserve of 1 MiB. The run's other files so far take less than one more MiB.
        self.assertGreater(size, 10 << 20)
        disk = program.small_disk(self, (size + (4 << 20)) // 1024)
        library = BUILD / "tests/libfailing_files.so"
        if not library.exists():
            self.skipTest("the failing disk is not part of this build")
        path, directory = self.path("room", directory=disk / "run", steps=2, checkpoint={"every_steps": 2}, model=model)
        late = ["env", f"LD_PRELOAD={library}", "BERT_HPC_SLOW_SPACE=2", str(BUILD / "bert_hpc"), str(path)]
        done = subprocess.run([MPIRUN, "-n", "1", str(BUILD / "bert_hpc"), str(path), ":", "-n", "1", *late],
                              capture_output=True, text=True, timeout=LIMIT, env=dict(os.environ, OMP_NUM_THREADS="1"))
        # The model beside it need not fit.
        self.assertIn("checkpoint step-00000002 after", done.stdout + done.stderr)

    def run_on_bad_disk(self, path, ranks, **variables):
        library = BUILD / "tests/libfailing_files.so"
        if not library.exists():
            self.skipTest("the failing disk is not part of this build")
        settings = [f"{name}={value}" for name, value in variables.items()]
        command = [MPIRUN, "-n", str(ranks), "env", f"LD_PRELOAD={library}", *settings, str(BUILD / "bert_hpc"), str(path)]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=dict(os.environ, OMP_NUM_THREADS="1"))

    def test_a_disk_that_keeps_nothing(self):
        # The first half of the run writes to a good disk. In the second half every fsync of a checkpoint fails.
        path, directory = self.stopped("unsynced")
        path, directory = self.path("unsynced", steps=20, checkpoint={"every_steps": 2})
        done = self.run_on_bad_disk(path, 2, BERT_HPC_FAIL_SYNC="/.writing-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: the checkpoint of step 12 was not written; the previous one is kept. Cannot force to the disk",
                      done.stdout)
        self.assertEqual((directory / "checkpoints" / "latest").read_text(), "step-00000010\n")
        self.assertEqual(checkpoints(directory)[-1], "step-00000010")
        self.assertEqual(list((directory / "checkpoints").glob(".writing-*")), [])

    def stop_after(self, path, directory, step):
        """Lets the run continue until it has written a checkpoint of this step or a later one, and then asks it to stop."""
        process = self.launch(path, 1)
        wait_until(lambda: (checkpoints(directory) or ["step-0"])[-1] >= f"step-{step:08d}", f"checkpoint {step}", process)
        process.send_signal(signal.SIGUSR1)
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 75, out + err)
        return out

    def test_killed_between_a_checkpoint_and_the_pointer_to_the_best(self):
        # The checkpoint of the second best model has its final name already. With keep = 1 later checkpoints remove those
        # that no pointer names.
        shards = self.work.folder / "shards"
        given = {"data": {"validation": [f"{shards}/validation-*.h5"]},
                 "schedule": {"name": "constant", "epochs": None, "warmup_ratio": None, "steps": 100000}}
        path, directory = self.path("best", evaluation={"best": "loss", "every_steps": 10},
                                    checkpoint={"every_steps": 100000, "keep": 1}, **given)
        done = self.run_on_bad_disk(path, 1, BERT_HPC_DIE_AT_REPLACING="checkpoints/best")
        self.assertEqual(done.returncode, 137, done.stdout + done.stderr)
        self.assertEqual((directory / "checkpoints" / "best").read_text(), "step-00000010\n")
        self.assertEqual(len(checkpoints(directory)), 2)
        best = checkpoints(directory)[1]
        step = int(best[5:])
        path, directory = self.path("best", evaluation={"best": "loss", "every_steps": 100000},
                                    checkpoint={"every_steps": 10, "keep": 1}, **given)
        self.assertIn(f"resuming from step {step} (", self.stop_after(path, directory, step + 30))
        self.assertEqual((directory / "checkpoints" / "best").read_text(), best + "\n")
        self.assertIn(best, checkpoints(directory))

    def test_a_rank_that_fails_alone_waits_for_no_disk(self):
        # Its checkpoint is being forced to a disk that hangs when metrics.h5 cannot be written.
        library = BUILD / "tests/libfailing_files.so"
        if not library.exists():
            self.skipTest("the failing disk is not part of this build")
        hangs = self.work.folder / "hangs"
        hangs.touch()
        path, directory = self.path("alone", steps=1000000000)
        process = subprocess.Popen([MPIRUN, "-n", "2", "-x", f"LD_PRELOAD={library}", "-x", f"BERT_HPC_HOLD_SYNC=rank-0000={hangs}",
                                    str(BUILD / "bert_hpc"), str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, env=dict(os.environ, OMP_NUM_THREADS="1"), start_new_session=True)
        self.addCleanup(program.end, process, path)
        marker = path.name.encode()
        wait_until_recorded(directory, 20, process)
        os.kill(program.ranks_of(marker)[0], signal.SIGUSR2)  # one alone: another one's would ask for another checkpoint
        wait_until(lambda: list((directory / "checkpoints").glob(".writing-*/rank-00001.h5")), "a checkpoint under way", process)
        while (directory / "metrics.h5").is_file():  # the run rewrites it every few seconds
            try:
                (directory / "metrics.h5").unlink()
                (directory / "metrics.h5").mkdir()
            except FileExistsError:
                pass
        err = process.communicate(timeout=LIMIT)[1]
        self.assertTrue(hangs.exists())  # all the time
        self.assertEqual(process.returncode, 4, err)
        self.assertIn("metrics.h5", err)
        wait_until(lambda: program.ranks_of(marker) == [], "the end of all ranks")
        self.assertEqual(checkpoints(directory), [])
        self.assertEqual((directory / ".status").read_text(), "failed\n")

    def test_no_mark_is_left_of_a_file_that_is_still_to_be_written(self):
        # The launcher's sign reaches rank 1 while its main thread prepares to write step 4. Its I/O thread, which is late,
        # finds the state of step 4 held and the order to write its file queued. If it wrote an early file first, that order
        # would write the file once more beside the mark of the first, and rank 0 could name it while it is incomplete.
        library = BUILD / "tests/libfailing_files.so"
        if not library.exists():
            self.skipTest("the failing disk is not part of this build")
        steps, space, mark, disk = (self.work.folder / f"early-{name}" for name in ("steps", "space", "mark", "disk"))
        path, directory = self.path("early", steps=6, checkpoint={"every_steps": 2})
        steps.write_text("3")
        output = self.work.folder / "early.out"
        with open(output, "w") as file:
            process = subprocess.Popen([MPIRUN, "-n", "2", "env", f"LD_PRELOAD={library}", f"BERT_HPC_STEPS={steps}",
                                        f"BERT_HPC_HOLD_SPACE={space}", f"BERT_HPC_HOLD_OPEN=rank-1.written={mark}",
                                        f"BERT_HPC_HOLD_SYNC=rank-00001.h5={disk}",
                                        str(BUILD / "bert_hpc"), str(path), "--set", "debug.step_delay_seconds=0.001"],
                                       stdout=file, stderr=subprocess.STDOUT, env=dict(os.environ, OMP_NUM_THREADS="1"),
                                       start_new_session=True)
        self.addCleanup(program.end, process, path)

        def wait_for(held):
            wait_until(pathlib.Path(f"{held}.reached").exists, held.name, process, output)

        wait_until_recorded(directory, 3, process, output)
        ranks = program.ranks_of(path.name.encode())
        space.touch()
        mark.touch()
        steps.write_text("4")
        wait_for(space)
        disk.touch()
        os.kill(ranks[1], signal.SIGCONT)
        wait_for(mark)  # of step 2
        space.unlink()
        wait_for_pauses(ranks, "bert_hpc", 20)  # of the main threads, in step 5: the state of step 4 is held
        mark.unlink()
        wait_for(disk)
        self.assertEqual(list((directory / "checkpoints").glob(".writing-step-00000004/*.written")), [])
        disk.unlink()
        os.kill(ranks[0], signal.SIGCONT)
        wait_until(lambda: "checkpoint step-00000004 is complete" in output.read_text(), "the early checkpoint", process, output)
        steps.write_text("100")
        self.assertEqual(process.wait(timeout=LIMIT), 0, output.read_text())
        self.assertEqual(checkpoints(directory), ["step-00000004", "step-00000006"])

    def test_each_checkpoint_that_is_not_written_is_reported_with_its_step(self):
        # Each rename to the final name fails, most often while the next checkpoint waits for it.
        path, directory = self.path("unwritten", steps=6, checkpoint={"every_steps": 1})
        done = self.run_on_bad_disk(path, 1, BERT_HPC_FAIL_SYNC="manifest.h5", BERT_HPC_SLOW_SYNC="manifest.h5=1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        reported_steps = re.findall(r"the checkpoint of step (\d+) was not written", done.stdout)
        self.assertEqual(reported_steps, ["1", "2", "3", "4", "5", "6"])

    def test_a_checkpoint_under_way_outlives_an_error_that_all_ranks_know_of(self):
        # The evaluation after the next step finds a better model, which cannot be kept.
        shards = self.work.folder / "shards"
        path, directory = self.path("outlives", data={"validation": [f"{shards}/validation-*.h5"]},
                                    evaluation={"best": "loss", "every_steps": 4}, checkpoint={"every_steps": 3})
        done = self.run_on_bad_disk(path, 2, BERT_HPC_FAIL_SYNC="model.safetensors", BERT_HPC_SLOW_SYNC="rank-0000=1")
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertIn("model.safetensors", done.stderr)
        self.assertEqual(checkpoints(directory), ["step-00000003"])

    def test_folders_that_cannot_be_kept(self):
        """A name is on the disk once the folder that holds it is."""
        for name, folder in (("inside", "/.writing-step-00000004"), ("names", "/checkpoints")):
            path, directory = self.path(name, steps=4, checkpoint={"every_steps": 4})
            done = self.run_on_bad_disk(path, 2, BERT_HPC_FAIL_FOLDER_SYNC=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, f"warning: .*was not written.*force to the disk '.*{folder}'")
            self.assertFalse((directory / "checkpoints" / "latest").exists())
            self.assertEqual(checkpoints(directory), [] if name == "inside" else ["step-00000004"])
        # The run's directory, and one above it that it made.
        for made in ("above", "above/below/run"):
            path, directory = self.path("made", directory=self.work.folder / made, steps=4)
            above = directory.parent
            done = self.run_on_bad_disk(path, 2, BERT_HPC_FAIL_FOLDER_SYNC=str(above))
            self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
            self.assertIn(f"force to the disk '{above}'", done.stderr)

    def test_old_checkpoints_that_cannot_be_removed(self):
        path, directory = self.path("kept", steps=20, checkpoint={"every_steps": 2, "keep": 1})
        done = self.run_on_bad_disk(path, 2, BERT_HPC_KEEP_FOLDERS="/.removing-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("was not written", done.stdout)
        self.assertRegex(done.stdout, "warning: after that checkpoint, which is complete: Cannot remove .*Directory not empty")
        self.assertEqual(checkpoints(directory), ["step-00000020"])
        rubbish = list((directory / "checkpoints").glob(".removing-*"))
        self.assertGreater(len(rubbish), 5)
        # Nor do these folders keep the run from resuming and using names that exist already.
        for steps, part in ((30, "/.removing-"), (40, "nothing")):
            (directory / ".status").write_text("running\n")
            path, directory = self.path("kept", steps=steps, checkpoint={"every_steps": 2, "keep": 1})
            done = self.run_on_bad_disk(path, 2, BERT_HPC_KEEP_FOLDERS=part)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("resuming from step", done.stdout)
        self.assertEqual(list((directory / "checkpoints").glob(".removing-*")), [])  # removed once no process holds them

    def test_writes_that_take_little_at_a_time(self):
        path, directory = self.path("short", steps=10, checkpoint={"every_steps": 2})
        done = self.run_on_bad_disk(path, 2, BERT_HPC_SHORT_WRITES="1000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(weights(directory), self.whole(10))
        self.check_folder(directory)
        (directory / ".status").write_text("running\n")
        done = program.run("bert_hpc", path, "--set", "schedule.steps=11", ranks=1, threads=1, check=0)
        self.assertIn("resuming from step 10 (", done.stdout)

    def test_two_jobs_in_one_directory(self):
        # No checkpoint on the way: the last start ends before the step that one of them would be of.
        path, directory = self.path("two", steps=1000000000, checkpoint={"every_steps": 1000000000})
        first = self.launch(path, 2)
        wait_until((directory / "metrics.journal").exists, "the journal", first)
        done = program.run("bert_hpc", path, ranks=2, threads=1, check=4)
        self.assertIn("another run is at work in", done.stderr)
        self.assertRegex(done.stderr, r"process \d+ on \S+ since 20")
        done = program.run("bert_hpc", path, "--overwrite", ranks=1, threads=1, check=4)
        self.assertIsNone(first.poll())
        # A killed run leaves its lock in the directory. The next run takes the stale lock over.
        for rank in program.ranks_of(path.name.encode()):
            os.kill(rank, signal.SIGKILL)
        first.communicate(timeout=LIMIT)
        self.assertTrue((directory / ".lock").exists())
        done = program.run("bert_hpc", path, "--set", "schedule.steps=3", ranks=1, threads=1, check=0)
        self.assertIn("was stale", done.stdout)
        self.assertFalse((directory / ".lock").exists())

    def test_a_directory_that_another_run_has_taken_over(self):
        """As of a run that was suspended for so long that another one found its lock stale."""
        library, steps = BUILD / "tests/libfailing_files.so", self.work.folder / "taken.steps"
        if not library.exists():
            self.skipTest("failing surroundings are not part of this build")
        path, directory = self.path("taken", steps=1000000000, checkpoint={"every_steps": 20, "keep": 100000},
                                    debug={"step_delay_seconds": 0.001})
        steps.write_text("50")
        process = subprocess.Popen([MPIRUN, "-n", "2", "env", f"LD_PRELOAD={library}", f"BERT_HPC_STEPS={steps}",
                                    str(BUILD / "bert_hpc"), str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=dict(os.environ, OMP_NUM_THREADS="1"), start_new_session=True)
        self.addCleanup(program.end, process, path)
        wait_until_recorded(directory, 50, process)
        # No step ends now. On SIGCONT the ranks write a checkpoint; then none is about to get its name.
        for rank in program.ranks_of(path.name.encode()):
            os.kill(rank, signal.SIGCONT)
        folder = directory / "checkpoints"
        wait_until(lambda: (folder / "latest").exists() and (folder / "latest").read_text() == "step-00000050\n",
                   "the checkpoint of step 50", process)
        before = checkpoints(directory), (folder / "latest").read_text()
        other = "host elsewhere\npid 1\nsince now\n"
        (directory / "new").write_text(other)
        (directory / "new").rename(directory / ".lock")
        steps.write_text("1000000000")
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 4, out + err)
        self.assertEqual(err.count("bert_hpc: error"), 1, err)
        self.assertIn("taken over by process 1 on elsewhere since now", err)
        self.assertEqual(before, (checkpoints(directory), (directory / "checkpoints" / "latest").read_text()))
        self.assertEqual((directory / ".lock").read_text(), other)
        self.assertEqual((directory / ".status").read_text(), "running\n")  # the other run's text

    def test_asked_to_stop_while_it_starts(self):
        # The first step ends once the signals are sent.
        library, steps = BUILD / "tests/libfailing_files.so", self.work.folder / "steps"
        if not library.exists():
            self.skipTest("failing surroundings are not part of this build")
        path, directory = self.path("start", steps=1000000000, debug={"step_delay_seconds": 0.001})
        process = subprocess.Popen([MPIRUN, "-n", "2", "-x", f"LD_PRELOAD={library}", "-x", f"BERT_HPC_STEPS={steps}",
                                    str(BUILD / "bert_hpc"), str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=dict(os.environ, OMP_NUM_THREADS="1"), start_new_session=True)
        self.addCleanup(program.end, process, path)
        wait_until(directory.exists, "the run's directory", process)
        for rank in program.ranks_of(path.name.encode()):
            os.kill(rank, signal.SIGUSR1)
        steps.write_text("1000000000")
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 75, out + err)
        # The directory exists before the first step: a request in between leaves no checkpoint.
        begun = "before the first step" not in out
        step = int(re.search(r"stopped after step ([\d,]+)", out)[1].replace(",", "")) if begun else 0
        self.assertEqual(checkpoints(directory), [f"step-{step:08d}"] if begun else [])
        self.assertLess(step, 2)
        done = program.run("bert_hpc", path, "--set", f"schedule.steps={step + 1}", ranks=2, threads=1, check=0)
        self.assertEqual(f"resuming from step {step:,} (" in done.stdout, begun, done.stdout)

    def test_a_directory_that_cannot_be_written(self):
        if os.geteuid() == 0:
            self.skipTest("the superuser may write anywhere")
        path, directory = self.path("readonly")
        directory.mkdir()
        directory.chmod(0o500)
        self.addCleanup(directory.chmod, 0o700)
        program.run("bert_hpc", path, ranks=2, threads=1, check=4)


if __name__ == "__main__":
    unittest.main()
