#!/usr/bin/env python3
"""The PyTorch + Transformers side of the training benchmark: the same steps as our bench_training.

    python3 bench_training.py --case CASE.json [--steps N] [--warmup W] [--padding longest|cap|none]
                              [--trains all|lora|dora] [--targets NAME,NAME...] [--rank R]
                              [--threads T] [--precision fp32|bf16|fp16] [--device cpu|cuda] [--compile]

The case's model for sequence classification with scaled dot product attention (SDPA), dropout on, fused AdamW, clipping by the global
norm; in 16 bits the forward pass and the loss run under torch.autocast, in fp16 with a gradient scaler. On a GPU the
device is waited for after each step, and batches lie there before the clock starts. Prints one line of JSON: {"program", "precision",
"compiled", "padding", "attention", "threads", "seconds": [of each timed step]}. Batches are padded
before the clock starts, as a data loader's worker would do it. --padding none: the same model over real tokens alone
(unpadded.py), whose "attention" says what computed it. --trains lora, dora: through PEFT. Exit status 77: no torch,
transformers or (for these) peft here.
"""

import argparse
import json
import sys
import time

try:
    import torch
    import transformers
except ModuleNotFoundError as missing:
    print(f"skipped: no Python package {missing.name}")
    sys.exit(77)

import cases
import unpadded


def make_batches(case, padding, device):
    batches = []
    for ids in cases.token_ids(case):
        if padding == "none":
            batches.append(unpadded.packed(ids, [row % case["labels"] for row in range(len(ids))], device))
            continue
        width = case["cap"] if padding == "cap" else max(len(sequence) for sequence in ids)
        input_ids = torch.full((len(ids), width), case["config"].get("pad_token_id", 0))
        mask = torch.zeros_like(input_ids)
        for row, sequence in enumerate(ids):
            input_ids[row, : len(sequence)] = torch.tensor(sequence)
            mask[row, : len(sequence)] = 1
        batch = {"input_ids": input_ids, "labels": torch.arange(len(ids)) % case["labels"]}
        if not mask.all():  # without padding attention needs no mask, which is faster
            batch["attention_mask"] = mask
        batches.append({name: tensor.to(device) for name, tensor in batch.items()})
    return batches


def adapted(model, options):
    try:
        import peft
    except ModuleNotFoundError as missing:
        print(f"skipped: no Python package {missing.name}")
        sys.exit(77)
    targets = options.targets if options.targets == "all-linear" else options.targets.split(",")
    exclude = ["pooler.dense"] if options.targets == "all-linear" else None
    return peft.get_peft_model(model, peft.LoraConfig(r=options.rank, target_modules=targets, exclude_modules=exclude,
                                                      use_dora=options.trains == "dora",
                                                      modules_to_save=["bert.pooler.dense", "classifier"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", required=True)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--warmup", type=int)
    parser.add_argument("--padding", choices=["longest", "cap", "none"], default="longest")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--precision", choices=["fp32", "bf16", "fp16"], default="fp32")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--trains", choices=["all", "lora", "dora"], default="all")
    parser.add_argument("--targets", default="query,value")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--compile", action="store_true", help="torch.compile, with shapes that may change")
    options = parser.parse_args()
    with open(options.case) as file:
        case = json.load(file)
    steps = case["steps"] if options.steps is None else options.steps
    warmup = case["warmup"] if options.warmup is None else options.warmup
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    settings = {"model_type": "bert"} | case["config"]
    config = transformers.AutoConfig.for_model(**settings, num_labels=case["labels"])
    implementation = "eager" if config.model_type == "deberta-v2" else "sdpa"  # Transformers has no other for DeBERTa
    model = transformers.AutoModelForSequenceClassification.from_config(config, attn_implementation=implementation)
    if options.trains != "all":
        model = adapted(model, options)
    model = model.train().to(options.device)
    run = torch.compile(model, dynamic=True) if options.compile else model
    scaler = torch.amp.GradScaler(options.device, enabled=options.precision == "fp16")
    storage = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[options.precision]
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-5, weight_decay=0.01, fused=True)
    batches = make_batches(case, options.padding, options.device)
    attention = "SDPA" if implementation == "sdpa" else implementation
    if options.padding == "none":
        attention, attend = unpadded.choose_attention(options.device, storage)
    seconds = []
    for step in range(warmup + steps):
        batch = batches[step % len(batches)]
        begin = time.perf_counter()
        with torch.autocast(options.device, dtype=storage, enabled=options.precision != "fp32"):
            loss = unpadded.loss(model, attend, batch) if options.padding == "none" else run(**batch).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if not loss.item() < 1e9:
            raise SystemExit(f"the loss of step {step} is {loss.item()}")
        if options.device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    name = f"PyTorch {torch.__version__}, Transformers {transformers.__version__}"
    print(
        json.dumps(
            {
                "program": name,
                "precision": options.precision,
                "compiled": options.compile,
                "padding": options.padding,
                "attention": attention,
                "threads": torch.get_num_threads(),
                "seconds": seconds[warmup:],
            }
        )
    )


if __name__ == "__main__":
    main()
