#!/usr/bin/env python3
"""Mode embed: bytes of a text by type and compression, and its rate beside mode evaluate and beside sentence-transformers.

    python3 embeddings.py bytes MODEL SHARDS… [--build BUILD]
    python3 embeddings.py rate MODEL SHARDS… [--build BUILD] [--ranks 1] [--rounds 2]
    python3 embeddings.py encode MODEL TEXTS [--build BUILD] [--threads 2] [--rounds 2] [--batch 32] [--most 3000]

MODEL: a Hugging Face folder of a BERT model, e.g. all-MiniLM-L6-v2 or bert-base-uncased; SHARDS: files that bert_hpc_prep made with its
vocabulary for classification. `bytes` embeds them once in each type, pooled (cls) and by token, with and without compression, and also prints what
the same numbers take as text (fp32 with 9 digits, as numpy.savetxt writes them). `rate` evaluates and embeds them by turns, after a training of one
step that gives MODEL an output layer; start-up is subtracted, as the time of a run on the shortest of the files. cls is compared with an
evaluation of classification, whose last block computes first tokens alone, as does cls; mean and tokens, whose last block computes all tokens, with the
same rate times the share of operations that this leaves out. Their times are processor seconds (user and system, of all ranks), which other programs
on the machine hardly change, and wall seconds. `encode` embeds the first texts of a file with a text a line beside sentence-transformers, which
computes batches of texts sorted by length, as its encode() does, and of texts in the order of the file, and ONNX Runtime if it is installed: in fp32,
ours and sentence-transformers also in bf16, ours and ONNX Runtime's also in 8-bit integers (its dynamic quantization, by output, with 7 bits of weights where the processor lacks VNNI); truncated to
128 tokens, pooled as MODEL says, from text to embeddings, without start-up, in wall seconds. The best round counts. Cosines are of embeddings whose
mean over the texts is subtracted, to those of sentence-transformers. Prints Markdown tables. Exit status: 0 measured, 1 a
program failed.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import h5py

TYPES = ("fp32", "fp16", "bf16", "int8")
COMPUTES = ("fp32", "bf16", "int8")


def tables(**sections):
    return "".join(f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in section.items()) for name, section in sections.items())


class Program:
    """Runs bert_hpc on inputs in a folder of its own."""

    def __init__(self, folder, build, ranks, threads=1):
        self.folder, self.program, self.ranks, self.threads = pathlib.Path(folder), str(pathlib.Path(build).resolve() / "bert_hpc"), ranks, threads

    def run(self, name, **sections):
        """Wall seconds and processor seconds of a run into FOLDER/NAME."""
        directory = self.folder / name
        path = self.folder / "input.toml"
        sections["run"] = {"directory": str(directory)} | sections.get("run", {})
        path.write_text(tables(**sections), encoding="utf-8")
        command = ["mpirun", "-n", str(self.ranks), self.program, str(path)] if self.ranks > 1 else [self.program, str(path)]
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS=str(self.threads)), check=False)
        wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}\n{path.read_text()}")
        return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    def prepare(self, model, texts, output, most):
        """Shards of a text a row."""
        (self.folder / f"{output}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        (self.folder / "prep.toml").write_text(tables(
            source={"format": "jsonl", "test_files": [str(self.folder / f"{output}.jsonl")], "text": "text"},
            tokenizer={"vocabulary": str(model), "max_tokens": most}, task={"name": "embedding"}, output={"directory": str(self.folder / output)}), encoding="utf-8")
        begin = time.perf_counter()
        done = subprocess.run([f"{self.program}_prep", str(self.folder / "prep.toml")], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return time.perf_counter() - begin, [str(path) for path in sorted((self.folder / output).glob("test-*.h5"))]

    def embed(self, name, model, shards, compute="fp32", **keys):
        seconds = self.run(name, run={"mode": "embed"}, model={"pretrained": str(model)}, data={"test": shards}, precision={"compute": compute}, embed=keys)
        return seconds, sorted((self.folder / name / "embeddings").glob("test-*.h5"))

    def forget(self, *names):
        for name in names:
            subprocess.run(["rm", "-rf", str(self.folder / name)], check=True)


def counts(shards):
    sequences = tokens = 0
    for path in shards:
        with h5py.File(path) as file:
            sequences += len(file["offsets"]) - 1
            tokens += int(file["offsets"][-1])
    return sequences, tokens


def text_bytes(paths):
    """Bytes of the same numbers as text: a sign, 9 digits, an exponent and a blank each (numpy.savetxt with "%.9g"), by a sample."""
    total = 0.0
    for path in paths:
        with h5py.File(path) as file:
            data = file["embeddings"]
            sample = data[:min(len(data), 2000)]
            total += sum(len("%.9g " % x) for row in sample for x in row) / len(sample) * len(data)
    return total


def measure_bytes(program, model, shards):
    sequences, tokens = counts(shards)
    print(f"{sequences:,} texts, {tokens:,} tokens ({tokens / sequences:.1f} a text); file bytes, without labels' few\n")
    print("| pooling | type | compression | bytes a text | of fp32 | of the same numbers as text |")
    print("|---|---|---|---:|---:|---:|")
    for pooling in ("cls", "tokens"):
        whole = as_text = 0.0
        for kind in TYPES:
            for compression in ("none", "gzip"):
                _, paths = program.embed("bytes", model, shards, pooling=pooling, type=kind, compression=compression)
                size = sum(path.stat().st_size for path in paths)
                if kind == "fp32" and compression == "none":
                    whole, as_text = size, text_bytes(paths)
                print(f"| {pooling} | {kind} | {compression} | {size / sequences:,.0f} | {size / whole:.2f} | {size / as_text:.2f} |", flush=True)
                program.forget("bytes")
        print(f"| {pooling} | text | none | {as_text / sequences:,.0f} | {as_text / whole:.2f} | 1 |")


def all_tokens_share(model):
    """Operations of an evaluation, whose last block computes all but keys and values for first tokens alone, over those of all tokens,
    without attention's products."""
    config = json.loads((model / "config.json").read_text())
    layers, hidden, inner = config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"]
    block = 4 * hidden * hidden + 2 * hidden * inner
    return ((layers - 1) * block + 2 * hidden * hidden) / (layers * block)


def measure_rate(program, base, shards, rounds):
    shortest = min(shards, key=lambda path: counts([path]))
    longer = [path for path in shards if path != shortest]
    if not longer:
        sys.exit("rate needs two shards or more: start-up is the time on the shortest of them")
    head = {"model": {"pretrained": str(base)}, "task": {"name": "classification"}}
    program.run("tuned", data={"train": longer}, batch={"global": 16}, optimizer={"learning_rate": 1e-5}, schedule={"steps": 1}, **head)
    model = program.folder / "tuned/model"
    head["model"] = {"pretrained": str(model)}

    def evaluate(data):
        return program.run("evaluated", run={"mode": "evaluate"}, data={"test": data}, **head)

    kinds = {"evaluate": evaluate}
    for name, keys in (("cls", {"pooling": "cls"}), ("mean", {"pooling": "mean"}), ("tokens fp32", {"pooling": "tokens"}),
                       ("tokens fp16", {"pooling": "tokens", "type": "fp16"}),
                       ("tokens fp16 gzip", {"pooling": "tokens", "type": "fp16", "compression": "gzip"})):
        kinds[name] = lambda data, keys=keys: program.embed("embedded", model, data, **keys)[0]
    best = {}
    for _ in range(rounds):
        for name, run in kinds.items():
            for part, data in (("start", [shortest]), ("all", [shortest, *longer])):
                seconds = run(data)
                program.forget("evaluated", "embedded")
                best[name, part] = [min(a, b) for a, b in zip(seconds, best.get((name, part), seconds))]
    _, tokens = counts(longer)
    share = all_tokens_share(model)
    print(f"{program.ranks} ranks of a thread, {tokens:,} tokens, best of {rounds} rounds; the last block of an evaluation leaves {share:.3f} of all operations\n")
    print("| mode | processor s | wall s | tokens/s by wall | of inference, processor time | by wall |")
    print("|---|---:|---:|---:|---:|---:|")
    base_wall, base_cpu = (best["evaluate", "all"][i] - best["evaluate", "start"][i] for i in range(2))
    for name in kinds:
        wall, cpu = (best[name, "all"][i] - best[name, "start"][i] for i in range(2))
        ideal = 1 if name in ("evaluate", "cls") else 1 / share
        print(f"| {name} | {cpu:.2f} | {wall:.2f} | {tokens / wall:,.0f} | {base_cpu * ideal / cpu:.2f} | {base_wall * ideal / wall:.2f} |")


def onnx_encoders(model, folder, threads):
    """Functions from batches of texts, sorted by length, to embeddings that are means of tokens, by ONNX Runtime: of fp32 and int8; none without it.
    Eager attention, by the older exporter, is what its optimizer fuses: without that it has the time of PyTorch."""
    try:
        import onnx
        import onnxruntime
        import torch
        from onnxruntime.quantization import QuantType, quantize_dynamic
        from onnxruntime.transformers import optimizer
    except ImportError:
        return {}
    transformer, path = model[0].auto_model.eval(), str(folder / "model.onnx")
    names = ["input_ids", "attention_mask", "token_type_ids"]
    usual = transformer.config._attn_implementation
    transformer.set_attn_implementation("eager")

    class States(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = transformer

        def forward(self, *tensors):
            return self.encoder(**dict(zip(names, tensors, strict=True))).last_hidden_state

    torch.onnx.export(States(), tuple(torch.ones(2, 8, dtype=torch.long) for _ in names), path, input_names=names, output_names=["last_hidden_state"], dynamo=False,
                      dynamic_axes={name: {0: "texts", 1: "tokens"} for name in names}, opset_version=17)
    transformer.set_attn_implementation(usual)
    fused = optimizer.optimize_model(path, model_type="bert", num_heads=transformer.config.num_attention_heads, hidden_size=transformer.config.hidden_size)
    if fused.get_fused_operator_statistics()["Attention"] != transformer.config.num_hidden_layers:
        sys.exit("ONNX Runtime's optimizer did not fuse attention: the comparison would be unfair")
    fused.save_model_to_file(path)
    quantized = str(folder / "model_int8.onnx")
    has_vnni = "avx512_vnni" in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    quantize_dynamic(path, quantized, per_channel=True, reduce_range=not has_vnni, weight_type=QuantType.QInt8,
                     extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})

    def encoder(file):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

        def encode(texts, batch):
            order, found = sorted(range(len(texts)), key=lambda i: -len(texts[i])), [None] * len(texts)
            for begin in range(0, len(order), batch):
                rows = order[begin:begin + batch]
                tokens = model.tokenizer([texts[i] for i in rows], padding=True, truncation=True, max_length=model.max_seq_length, return_tensors="np")
                states = session.run(["last_hidden_state"], {name: tokens[name].astype("int64") for name in names})[0]
                real = tokens["attention_mask"][:, :, None].astype("float32")
                for i, vector in zip(rows, (states * real).sum(1) / real.sum(1), strict=True):
                    found[i] = vector
            return found

        return encode

    return {"fp32": encoder(path), "int8": encoder(quantized)}


def centred_cosines(found, expected):
    """Minimum and mean cosine of rows without the means over all rows."""
    import numpy

    a, b = (numpy.asarray([[float(x) for x in row] for row in rows]) for rows in (found, expected))
    a, b = a - a.mean(0), b - b.mean(0)
    cosines = (a * b).sum(1) / numpy.linalg.norm(a, axis=1) / numpy.linalg.norm(b, axis=1)
    return cosines.min(), cosines.mean()


def measure_encode(program, folder, path, rounds, batch, most):
    import sentence_transformers
    import torch

    texts = [line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()][:most]
    few = texts[:batch]
    torch.set_num_threads(program.threads)
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = 128
    best, found = {}, {}

    def timed(name, run):
        begin = time.perf_counter()
        found[name] = run()
        best[name] = min(best.get(name, float("inf")), time.perf_counter() - begin)

    def ours(compute, chosen):
        seconds, shards = program.prepare(folder, chosen, "ours", 128)
        (wall, _), files = program.embed("ours_embedded", folder, shards, compute)
        vectors = [row for file in files for row in h5py.File(file)["embeddings"][:]]
        program.forget("ours", "ours_embedded")
        return seconds + wall, vectors

    by_onnx = onnx_encoders(model, program.folder, program.threads)
    halved = sentence_transformers.SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": torch.bfloat16})
    halved.max_seq_length = 128
    for _ in range(rounds):
        for compute in COMPUTES:
            whole, found[f"ours {compute}"] = ours(compute, texts)
            seconds = (whole - ours(compute, few)[0]) * len(texts) / (len(texts) - len(few))
            best[f"ours {compute}"] = min(best.get(f"ours {compute}", float("inf")), seconds)
        timed("sentence-transformers fp32, sorted", lambda: model.encode(texts, batch_size=batch))
        timed("sentence-transformers fp32, unsorted", lambda: [row for i in range(0, len(texts), batch) for row in model.encode(texts[i:i + batch], batch_size=batch)])
        timed("sentence-transformers bf16, sorted", lambda: halved.encode(texts, batch_size=batch, convert_to_tensor=True).float().numpy())
        for compute, encode in by_onnx.items():
            timed(f"ONNX Runtime {compute}, sorted", lambda encode=encode: encode(texts, batch))
    print(f"{len(texts):,} texts, {program.threads} threads, batches of {batch}, best of {rounds} rounds\n")
    ratios = " | ".join(f"ours in {compute} to it" for compute in COMPUTES)
    print(f"| | texts/s | {ratios} | minimum cosine | mean |\n|---|---:|{'---:|' * len(COMPUTES)}---:|---:|")
    for name, seconds in best.items():
        minimum, mean = centred_cosines(found[name], found["sentence-transformers fp32, sorted"])
        ratios = " | ".join(f"{seconds / best[f'ours {compute}']:.2f}" for compute in COMPUTES)
        print(f"| {name} | {len(texts) / seconds:,.1f} | {ratios} | {minimum:.4f} | {mean:.5f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["bytes", "rate", "encode"])
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL")
    parser.add_argument("shards", nargs="+", metavar="SHARDS")
    parser.add_argument("--build", default="build")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--most", type=int, default=3000)
    options = parser.parse_args()
    shards = [str(pathlib.Path(path).resolve()) for path in options.shards]  # or a file of texts
    with tempfile.TemporaryDirectory() as folder:
        program = Program(folder, options.build, options.ranks, options.threads if options.what == "encode" else 1)
        if options.what == "encode":
            measure_encode(program, options.model.resolve(), pathlib.Path(shards[0]), options.rounds, options.batch, options.most)
        elif options.what == "bytes":
            measure_bytes(program, options.model.resolve(), shards)
        else:
            measure_rate(program, options.model.resolve(), shards, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
