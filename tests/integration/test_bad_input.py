"""Each error gives one clear message and the documented exit status on any number of ranks, and keeps earlier results
unchanged."""

import shutil
import unittest
import unittest.mock

import h5py
from program import Case, run


class BadInput(Case):
    def fails(self, status, *words, ranks=2, arguments=(), input=None, **tables):
        path = input or self.work.input("bad.toml", **tables)
        done = run("bert_hpc", path, *arguments, ranks=ranks, threads=1)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(done.stderr.count("bert_hpc: error"), 1, "the message comes once:\n" + done.stderr)
        return done

    def copied_shards(self, name, damage):
        target = self.work.folder / name
        shutil.copytree(self.work.folder / "shards", target)
        shard = next(target.glob("train-*.h5"))
        damage(shard)
        return {"train": [str(target / "train-*.h5")]}

    def other_shards(self, name, old, new):
        """Shards like the usual ones, with one change in the rows or in prep's input."""
        for kind, usual in (("tsv", "rows.tsv"), ("toml", "prep.toml")):
            text = (self.work.folder / usual).read_text().replace(old, new)
            (self.work.folder / f"{name}.{kind}").write_text(
                text.replace("rows.tsv", f"{name}.tsv").replace("/shards", f"/{name}"))
        run("bert_hpc_prep", self.work.folder / f"{name}.toml", check=0)

    def test_all_mistakes_in_the_input_come_at_once(self):
        self.fails(2, '"globl"', '"learning_rat"', "bad.toml:", '"global"', '"learning_rate"', batch={"globl": 3},
                   optimizer={"learning_rat": 1.0})
        # Wrong keys, contradicting keys and missing files in one message.
        self.fails(2, '"globl"', "epochs and steps", "nowhere-*.h5", "no-model", batch={"globl": 3},
                   schedule={"epochs": 1, "steps": 2}, data={"train": ["nowhere-*.h5"]}, model={"pretrained": "no-model"})

    def test_processes_that_a_launcher_started_separately(self):
        # As under srun without the plugin that this MPI asks for: each would train into the same directory.
        path = self.work.input("separate.toml", run={"directory": str(self.work.folder / "separate")})
        for program in ("bert_hpc", "bert_hpc_prep"):
            said = []
            for number in ("0", "1"):
                task = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": number}
                with unittest.mock.patch.dict("os.environ", task):
                    said.append(run(program, path, threads=1, check=6).stderr)
            self.assertIn("one of 2 processes that srun started", said[0])
            self.assertEqual(said[1], "")
        self.assertFalse((self.work.folder / "separate").exists())

    def test_an_input_that_is_not_there(self):
        self.fails(2, "nowhere.toml", input=self.work.folder / "nowhere.toml")

    def test_overrides_are_checked_like_the_file(self):
        self.fails(2, "--set", arguments=("--set", "batch.global=-3"))

    def test_missing_shards(self):
        self.fails(3, "nothing-*.h5", data={"train": [str(self.work.folder / "nothing-*.h5")]})

    def test_a_truncated_shard(self):
        data = self.copied_shards("short", lambda shard: shard.write_bytes(shard.read_bytes()[:-100]))
        self.fails(3, "train-00000.h5", "truncated", data=data)

    def test_a_flipped_bit(self):
        def flip(shard):
            content = bytearray(shard.read_bytes())
            content[len(content) // 2] ^= 16
            shard.write_bytes(content)

        self.fails(3, "train-00000.h5", data=self.copied_shards("flipped", flip))

    def test_a_file_that_is_no_shard(self):
        data = self.copied_shards("foreign", lambda shard: shard.write_bytes(b"not a shard" * 1000))
        self.fails(3, "train-00000.h5", data=data)

    def test_an_empty_file(self):
        self.fails(3, "train-00000.h5", data=self.copied_shards("empty", lambda shard: shard.write_bytes(b"")))

    def test_data_sets_that_do_not_go_together(self):
        """A model that was trained with one vocabulary and label set is not evaluated with another."""
        for name, old, new, words in (
                ("labels", "\tanimal\t", "\tplant\t", ("label names (", "plant", "animal")),
                ("case", "train_size = 120", "train_size = 120\nlowercase = false",
                 ("its text was prepared with lowercase = false", "with lowercase = true")),
                ("vocabulary", "train_size = 120", "train_size = 100", ("its vocabulary (100 pieces", "(108 pieces"))):
            self.other_shards(name, old, new)
            for split in ("validation", "test"):
                data = {split: [f"{self.work.folder}/{name}/{split}-*.h5"]}
                self.fails(3, f"{name}/{split}-00000.h5", "train-00000.h5", *words, data=data)

    def test_shards_that_are_named_twice(self):
        shards = self.work.folder / "shards"
        self.fails(3, f"data.train names '{shards}/train-00000.h5' twice", "List every shard once",
                   data={"train": [f"{shards}/train-00000.h5", f"{shards}/train-*.h5"]})
        for split, shared in (("validation", "train"), ("test", "train"), ("test", "validation")):
            self.fails(3, f"'{shards}/{shared}-00000.h5' is in data.{shared} and in data.{split}", "evaluate",
                       data={split: [f"{shards}/{shared}-*.h5"]})
        self.fails(3, "is in data.train and in data.validation", data={"train": [f"{shards}/*.h5"]})

    def test_more_steps_than_any_run_has(self):
        for arguments in ((), ("--validate",)):
            self.fails(2, "[schedule] asks for 9.22337e+18 epochs, too many", "set at most",
                       arguments=("--set", "schedule.epochs=9223372036854775807", *arguments))

    def test_sequences_longer_than_the_model(self):
        self.fails(3, "max_position_embeddings", model={"max_position_embeddings": 8})

    def test_a_task_that_the_shards_are_not_for(self):
        self.fails(3, "regression", task={"name": "regression"})

    def test_more_ranks_than_samples(self):
        self.fails(2, "[batch] global", "4 replicas", ranks=4, batch={"global": 2})

    def test_grids_that_do_not_fit_ranks_or_model(self):
        # The model of these tests has 2 blocks and 2 heads. All are refused before the shards are looked for.
        nothing = {"train": ["nowhere-*.h5"]}
        for parallel, words in [
            ({"data": 3}, ("needs 3 ranks, but there are 2 ranks", "data = 2, pipeline = 1, tensor = 1")),
            ({"pipeline": 4}, ("needs a multiple of 4 ranks", "data = 1, pipeline = 2, tensor = 1")),
            ({"pipeline": 0}, ("only one of the three can be 0",)),
            ({"pipeline": 2, "balance": [3, 1]}, ("holds 4 blocks, but the model has 2", "balance = [1, 1]")),
            ({"pipeline": 2, "balance": [3.5, 0.5]}, ("holds 4 blocks, but the model has 2", "balance = [1.5, 0.5]")),
            ({"pipeline": 2, "balance": [1.5, 1]}, ("holds 2.5 blocks, but the model has 2", "balance = [1, 1]")),
            ({"pipeline": 2, "balance": [1.3333333333333333, 0.6666666666666667]}, ("a multiple of 0.5",)),
            ({"pipeline": 2, "balance": [2.5, -0.5]}, ("(entry 2) = -0.5 is out of range", "a multiple of 0.5")),
            ({"pipeline": 2, "balance": [2]}, ("[parallel] balance has 1 number",)),
            ({"pipeline": 2, "pipeline_schedule": "interleaved"}, ("virtual_stages = 2",)),
            ({"offload": True, "zero": 0}, ("zero = 1 or 2",)),
        ]:
            with self.subTest(parallel=parallel):
                self.fails(2, "[parallel]", *words, parallel=parallel, data=nothing)
        self.fails(2, "pipeline = 8 is too many: the model can be cut into at most 4 stages",
                   "data = 2, pipeline = 4, tensor = 1", ranks=8, parallel={"pipeline": 8}, data=nothing)
        self.fails(2, "tensor = 4 does not divide the model's 2 attention heads", "data = 2, pipeline = 1, tensor = 2",
                   ranks=4, parallel={"tensor": 4}, data=nothing)
        self.fails(2, "reproducible needs a power of two", "data = 3", ranks=3, run={"reproducible": True},
                   data=nothing)
        self.fails(2, "a chunk for each of the 4 replicas", "set [batch] chunks = 4", ranks=4, run={"reproducible": True},
                   batch={"global": 16, "chunks": 2}, data=nothing)
        self.fails(2, "[batch] chunks = 6 must be a power of two", ranks=1, run={"reproducible": True},
                   batch={"global": 16, "chunks": 6}, data=nothing)

    def test_tf32_without_a_gpu(self):
        self.fails(2, "[precision]", "tf32", '"fp32"', '"bf16"', "CUDA build", precision={"compute": "tf32"})

    def test_a_loss_that_is_not_a_number(self):
        self.fails(5, "learning_rate", "step", optimizer={"learning_rate": 1e30, "max_gradient_norm": 0.0},
                   schedule={"epochs": 3, "warmup_ratio": 0.0}, run={"directory": str(self.work.folder / "nan")})

    def test_a_run_directory_that_cannot_be_made(self):
        (self.work.folder / "file").write_text("a file, no folder")
        self.fails(4, str(self.work.folder / "file"), run={"directory": str(self.work.folder / "file/run")})

    def test_weights_that_are_missing_or_damaged(self):
        self.fails(4, "config.json", model={"pretrained": str(self.work.folder)})

    def test_a_trained_model_is_taken_as_it_is(self):
        model = self.work.folder / "trained/model"
        run("bert_hpc", self.work.input(run={"directory": str(model.parent)}, schedule={"epochs": None, "steps": 2}), check=0)
        self.fails(2, "model.hidden_size = 64", "says 32", "model.num_hidden_layers = 1", "says 2", "leave it out",
                   model={"pretrained": str(model), "hidden_size": 64, "num_hidden_layers": 1})
        self.fails(2, 'model.family = "roberta", but config.json', 'says "bert"',
                   model={"pretrained": str(model), "family": "roberta", "hidden_size": None, "num_hidden_layers": None})
        # Sizes in the file give way to a model named on the command line.
        done = run("bert_hpc", self.work.input("sizes.toml", model={"hidden_size": 64}), "--validate", "--set",
                   f'model.pretrained="{model}"', check=0)
        self.assertIn("2 layers of 32", done.stdout)
        # The model's labels are those of its training.
        self.other_shards("other", "\tanimal\t", "\tplant\t")
        tables = {"model": {"pretrained": str(model), "hidden_size": None, "num_hidden_layers": None,
                            "num_attention_heads": None, "intermediate_size": None, "max_position_embeddings": None},
                  "data": {"train": None, "validation": None, "test": [f"{self.work.folder}/other/test-*.h5"]}}
        self.fails(3, '"machine", "music", "nature" and "plant"', 'labels = ["animal", "machine", "music", "nature"]',
                   run={"mode": "evaluate", "directory": str(self.work.folder / "judged")}, optimizer=None, schedule=None,
                   **tables)
        # Predictions do not read the shards' labels.
        directory = self.work.folder / "predicted"
        predicts = {"mode": "predict", "directory": str(directory)}
        run("bert_hpc", self.work.input("predict.toml", run=predicts, optimizer=None, schedule=None, **tables), check=0)
        with h5py.File(directory / "predictions.h5") as found:
            self.assertEqual(list(found.attrs["label_names"]), ["animal", "machine", "music", "nature"])
            self.assertEqual(set(found["label"]), {-1})
        # Training on other labels begins with a new classifier, and reports this.
        done = run("bert_hpc", self.work.input(
            "renamed.toml", run={"directory": str(self.work.folder / "renamed")}, model=tables["model"],
            schedule={"epochs": None, "steps": 1},
            data={split: [f"{self.work.folder}/other/{split}-*.h5"] for split in ("train", "validation")}), check=0)
        self.assertIn("warning: the pretrained classifier has other labels", done.stdout)
        self.assertIn("animal is machine, machine is music, music is nature, nature is plant", done.stdout)

    def test_a_trained_model_reads_its_own_vocabulary_and_case_alone(self):
        folder = self.work.folder
        model = folder / "worded/model"
        run("bert_hpc", self.work.input(run={"directory": str(model.parent)}, schedule={"epochs": None, "steps": 2}), check=0)
        (folder / "bare").mkdir()
        shutil.copy(model / "vocab.txt", folder / "bare")  # alone: it does not say that it is for lowercased text
        self.other_shards("fewer", "train_size = 120", "train_size = 100")
        self.other_shards("cased", "train_size = 120", f'vocabulary = "{folder}/bare"\nlowercase = false')
        sizes = {key: None for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                                       "max_position_embeddings")}
        for name, words in (("fewer", ("another vocabulary (100 tokens", "(108 tokens")),
                            ("cased", ("lowercase = false", "do_lower_case = true"))):
            for mode in ("evaluate", "predict", "train"):
                data = {"test": [f"{folder}/{name}/test-*.h5"], "validation": None,
                        "train": [f"{folder}/{name}/train-*.h5"] if mode == "train" else None}
                rest = {} if mode == "train" else {"optimizer": None, "schedule": None}
                self.fails(3, f"{folder}/{name}/{'train' if mode == 'train' else 'test'}-00000.h5", *words,
                           f'[tokenizer] vocabulary = "{model}"', run={"mode": mode, "directory": str(folder / "no")},
                           model={"pretrained": str(model), **sizes}, data=data, **rest)


if __name__ == "__main__":
    unittest.main()
