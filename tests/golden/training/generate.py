#!/usr/bin/env python3
"""Golden results of whole trainings through bert_hpc_prep and bert_hpc: the same trainings by Transformers and PEFT, in double
precision. integration/training_cases.py makes texts and first models; bert_hpc_prep of the build makes the shards.

    BERT_HPC_BUILD=build python3 generate.py [CASE...]

CASE.json has the hashes of the two shards, the loss of each step, and predictions of the test shard by the model that Transformers
trained: numbers a row (probabilities or a value), the cosine or distance of each pair or of neighbours, classes of words, [answer, null odds] of each
question, or loss and accuracy of hidden tokens. For question answering, windows and labels of the shards, and RoBERTa's ids, are
compared with the fast tokenizer's before anything is written.
Needs torch, transformers, peft, h5py and, for the triplet losses of batches, sentence-transformers; versions are in the files.
"""

import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
os.environ["BERT_HPC_BUILD"] = str(pathlib.Path(os.environ.get("BERT_HPC_BUILD", "build")).resolve())
sys.path.insert(0, str(HERE.parents[1] / "integration"))

import h5py  # noqa: E402
import hf_reference  # noqa: E402
import numpy as np  # noqa: E402
import peft  # noqa: E402
import torch  # noqa: E402
import training_cases as cases  # noqa: E402
import transformers  # noqa: E402
from qa_reference import answers_of, asked_in, check_windows, windows_in  # noqa: E402


def predictions(task, train, test, model, folder):
    if task == "question_answering":
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "question_answering")
        asked = [asked_in(folder / f"{split}.json") for split in ("train", "test")]
        windows = [windows_in(tokenizer, rows, cases.MAX_TOKENS, cases.OVERLAP) for rows in asked]
        check_windows(train, windows[0], asked[0], 0)
        check_windows(test, windows[1], asked[1], len(asked[0]))
        of_all = {key: [w[key] for of_row in windows[1] for w in of_row] for key in ("ids", "types")}
        scores = [torch.stack([o.start_logits[0], o.end_logits[0]], -1).numpy() for o in hf_reference.outputs(model, of_all)]
        return {name: [text, round(odds, 7)] for name, (text, _, odds) in answers_of(asked[1], windows[1], scores, {}).items()}
    if cases.embeds(task):  # the cosine of each pair, or its distance
        with torch.no_grad():
            pairs = [hf_reference.embeddings_of(task, model, test, rows) for rows in cases.compared_texts(task, test)]
        euclidean = cases.embedding_settings(task).get("similarity") == "euclidean"
        found = (pairs[0] - pairs[1]).norm(dim=-1) if euclidean else hf_reference.similarities("cosine", *pairs)
        return [round(value, 7) for value in found.tolist()]
    if task == "gpt2_causal_lm":  # the mean loss of each sequence
        with torch.no_grad():
            return [round(hf_reference.token_loss(model, test, [i]).item(), 7) for i in range(len(test["ids"]))]
    if task == "masked_lm":
        hidden = hf_reference.hidden_epochs(test, cases.EVALUATION_SEED, 1)
        with torch.no_grad():
            logits, tokens = hf_reference.hidden_tokens(model, hidden, range(len(hidden["ids"])))
        found = torch.nn.functional.cross_entropy(logits, tokens), (logits.argmax(-1) == tokens).double().mean()
        return [round(value.item(), 7) for value in found]
    logits = [output.logits[0] for output in hf_reference.outputs(model, test)]
    if task == "token_classification":
        return [test["names"][int(row.argmax())] for i, words in enumerate(test["words_of"]) for row in logits[i][words[:, 0]]]
    return [[round(value, 7) for value in hf_reference.prediction(task, train, row).tolist()] for row in logits]


def check_ids(folder, task, split, shard, first):
    """The ids of a shard are those of Transformers' tokenizer from the folder beside it. first: the source row of the first text."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / task)
    texts = [line.split("\t")[0] for line in (folder / f"{split}.tsv").read_text().splitlines()[1:]]
    ids = tokenizer([texts[row - first] for row in shard["rows"]], truncation=True, max_length=cases.MAX_TOKENS)["input_ids"]
    assert len(ids) == len(texts) and ids == shard["ids"] and tokenizer.pad_token_id == shard["padding"] == 1


def first_projections(made, name):
    """The first weights of the projections of hidden states, of a checkpoint of a step that changes nothing."""
    output = f"{name}_first"
    made.distil(name, output, {}, optimizer={"learning_rate": 1e-30, "weight_decay": 0.0}, schedule={"steps": 1},
                checkpoint={"every_steps": 1})
    checkpoint = made.folder / output / "checkpoints/step-00000001"
    with h5py.File(checkpoint / "manifest.h5") as manifest, h5py.File(checkpoint / "rank-00000.h5") as values:
        names = [each.decode() for each in manifest["tensors/names"]]
        shapes = [[int(size) for size in each.decode().split(",")] for each in manifest["tensors/shapes"]]
        begins = np.cumsum([0] + [int(np.prod(shape)) for shape in shapes])
        assert [row[0] for row in manifest["pieces"][:]] == list(range(len(names))), "one piece a tensor, in their order"
        assert begins[-1] == values["parameters"].size
        return [values["parameters"][begin:begin + int(np.prod(shape))].reshape(shape) for each, shape, begin in
                zip(names, shapes, begins[:-1], strict=True) if each.startswith("distillation.") and each.endswith(".weight")]


def main():
    class Made(cases.Trainings):
        runTest = None

    Made.setUpClass()
    made = Made()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__}
    names = [*cases.CASES, *(f"lora_{name}" for name in cases.ADAPTERS), *(f"distilled_{name}" for name in cases.DISTILLED)]
    for name in sys.argv[1:] or names:
        task = cases.task_of(name)
        train, test = made.prepare(task)
        start = made.folder / f"{task}_start"
        if cases.family_of(task) == "roberta":
            check_ids(made.folder, task, "train", train, 0)
            check_ids(made.folder, task, "test", test, len(train["rows"]))
        if task == name:
            losses, model = hf_reference.trained(task, start, train)
        elif name.startswith("distilled_"):
            made.teacher_of(task)
            case = name.removeprefix("distilled_")
            start = made.folder / made.student_of(case)
            projections = first_projections(made, case) if "narrow" in cases.DISTILLED[case] else []
            losses, model = hf_reference.distilled(case, start, made.folder / f"{task}_teacher", train, projections)
        else:
            adapter = made.folder / name
            cases.write_adapter(adapter, name.removeprefix("lora_"), start.name, train)
            losses, model = hf_reference.trained_adapter(start, adapter, train, task)
        golden = {"versions": versions, "shards": [cases.hash_of(train), cases.hash_of(test)], "losses": [round(loss, 8) for loss in losses],
                  "predictions": predictions(task, train, test, model, made.folder)}
        lines = [f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in golden.items()]
        (HERE / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        print(f"{name}: losses {losses[0]:.4f} to {losses[-1]:.4f}", flush=True)
    Made.tearDownClass()


if __name__ == "__main__":
    main()
