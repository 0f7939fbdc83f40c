"""bert_hpc_prep's output directory: it replaces what it wrote itself and nothing else, one process at a time, and clears up
after a run that was killed."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

from program import BUILD, prepare_csv
from waiting import LIMIT, wait_until

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MANIFEST = ".written_by_bert_hpc_prep"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Output(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bert_hpc_prep_output_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.out = self.folder / "out"
        (self.folder / "vocab.txt").write_text("\n".join(SPECIAL + list("abc")) + "\n")
        (self.folder / "rows.csv").write_text("text,label\n" + "a b,x\nb c,y\n" * 60 + ",x\n")

    def prepare(self, *arguments, check=0, ranks=1, **tables):
        return prepare_csv(self.folder, "out", *arguments, check=check, ranks=ranks, **tables)

    def refuses(self, *needles, check=2, ranks=1):
        before = contents(self.out)
        for arguments, ranks in ((["--validate"], 1), ([], ranks)):
            message = self.prepare(*arguments, check=check, ranks=ranks).stderr
            for needle in needles:
                self.assertIn(needle, message)
        self.assertEqual(contents(self.out), before)

    def test_a_models_folder_is_refused(self):
        self.out.mkdir()
        (self.out / "vocab.txt").write_text("mine\n")
        (self.out / "tokenizer_config.json").write_text('{"do_lower_case": true}')
        self.refuses("[output] directory", "'out' holds tokenizer_config.json and vocab.txt, which no run of bert_hpc_prep left "
                     "there. Nothing there is replaced: set [output] directory to another directory, or move these files away", ranks=2)

    def test_a_models_folder_without_vocab_txt_is_refused(self):
        self.out.mkdir()
        (self.out / "config.json").write_text("{}")
        (self.out / "tokenizer.json").write_text("{}")
        self.refuses("'out' holds config.json and tokenizer.json, which no run")

    def test_a_foreign_file_with_a_shards_name_is_refused(self):
        self.prepare()
        (self.out / "train-00007.h5").write_text("my notes\n")
        self.refuses("'out' holds train-00007.h5, which no run of bert_hpc_prep left there", "move this file away")
        (self.out / "train-00007.h5").unlink()
        (self.out / "train-00000.h5").write_text("my notes\n")
        self.refuses("'out' holds train-00000.h5, changed after bert_hpc_prep wrote it")

    def test_a_vocabulary_that_was_changed_is_kept(self):
        self.prepare()
        with open(self.out / "vocab.txt", "a") as file:
            file.write("d\n")
        os.symlink("prep.toml", self.out / "test-00009.h5")
        self.refuses("holds test-00009.h5, which no run of bert_hpc_prep left there, and vocab.txt, changed after bert_hpc_prep")

    def test_other_files_stay_and_own_ones_are_replaced(self):
        self.prepare()
        (self.out / "notes.txt").write_text("mine")
        (self.out / "train-00000.h5").unlink()
        (self.out / "prep.toml").write_text("# a copy that was edited\n")
        done = self.prepare("--set", 'tokenizer.max_tokens=6', ranks=2)
        self.assertIn("replaced 2 shards of an earlier run in out", done.stdout)
        self.assertEqual((self.out / "notes.txt").read_text(), "mine")
        self.assertEqual(sorted(contents(self.out)), sorted([
            MANIFEST, "notes.txt", "prep.toml", "rejects.tsv", "test-00000.h5", "tokenizer.json",
            "tokenizer_config.json", "train-00000.h5", "validation-00000.h5", "vocab.txt"]))

    def test_a_directory_of_the_version_before_is_replaced(self):
        self.prepare()
        for name in MANIFEST, "tokenizer.json":  # which that version did not write
            (self.out / name).unlink()
        self.assertIn("replaced 3 shards", self.prepare().stdout)
        for name in MANIFEST, "tokenizer.json":
            (self.out / name).unlink()
        settings = json.loads((self.out / "tokenizer_config.json").read_text()) | {"added": 1}
        (self.out / "tokenizer_config.json").write_text(json.dumps(settings))
        self.refuses("holds tokenizer_config.json and vocab.txt, which no run of bert_hpc_prep left there")

    def test_what_a_run_killed_while_it_replaced_files_left_is_replaced(self):
        self.prepare()
        old = contents(self.out)
        self.prepare("--set", "tokenizer.max_tokens=3", "--set", 'tokenizer.lowercase=false')
        new = contents(self.out)
        lines = {line for text in (old, new) for line in text[MANIFEST].decode().splitlines()[1:]}
        (self.out / MANIFEST).write_text("\n".join(["bert_hpc_prep output 1", *sorted(lines)]) + "\n")
        (self.out / "tokenizer_config.json").write_bytes(old["tokenizer_config.json"])
        (self.out / "train-00000.h5").write_bytes(old["train-00000.h5"])
        self.assertIn("replaced 3 shards", self.prepare().stdout)
        self.assertEqual(contents(self.out)[MANIFEST], old[MANIFEST])

    def test_one_process_at_a_time_and_a_killed_one_is_cleared_up_after(self):
        waiting = self.start_on_a_pipe()
        try:
            with open(self.folder / "pipe.csv", "w") as pipe:  # opened at the check, closed and opened again by the pass
                pipe.write("text,label\na,x\n")
                pipe.flush()
            wait_until((self.out / ".bert_hpc_prep").exists, "its scratch files", waiting)
            message = self.prepare(check=4).stderr
            self.assertIn(f"another bert_hpc_prep is at work in 'out': process {waiting.pid} on {socket.gethostname()} since",
                          message)
            self.assertIn("Wait for it to end, or set [output] directory to another directory.", message)
            self.assertTrue((self.out / ".bert_hpc_prep").is_dir())
        finally:
            waiting.send_signal(signal.SIGTERM)
            waiting.communicate(timeout=LIMIT)
        (self.out / ".bert_hpc_prep").mkdir(exist_ok=True)
        (self.out / ".bert_hpc_prep" / "tokens-0").write_bytes(b"1234")
        done = self.prepare()
        self.assertIn(f"the lock of process {waiting.pid} on {socket.gethostname()} since", done.stdout)
        self.assertIn("removed out/.bert_hpc_prep, the scratch files (4 bytes) of a run that was killed", done.stdout)
        self.assertFalse((self.out / ".bert_hpc_prep").exists())
        self.assertFalse((self.out / ".lock").exists())

    def start_on_a_pipe(self):
        """A process that waits for its text."""
        os.mkfifo(self.folder / "pipe.csv")
        (self.folder / "pipe.toml").write_text(
            '[source]\nformat = "csv"\nfiles = ["pipe.csv"]\n[tokenizer]\nvocabulary = "vocab.txt"\n'
            '[task]\nname = "classification"\n[output]\ndirectory = "out"\n')
        return subprocess.Popen([str(BUILD / "bert_hpc_prep"), "pipe.toml"], cwd=self.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)


if __name__ == "__main__":
    unittest.main()
