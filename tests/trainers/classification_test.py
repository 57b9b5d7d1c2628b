"""Classifiers beside transformers: the same rows, AdamW, step by step; and the same on a mesh.

usage: classification_test.py EASYDEL
"""

import unittest

from tiny_run import *

from transformers import AutoConfig, AutoModelForSequenceClassification
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

STEPS, BATCH, RATE, DECAY = 12, 4, 1e-3, 0.01
MESHES = ((), ("--mesh", "1,2,1,2,1"), ("--set", "gradient_accumulation_steps=2"))


class Classification(TinyRun):
    def make(self, name, labels, family="llama", **changes):
        torch.manual_seed(1)
        config = AutoConfig.for_model(family, vocab_size=300, hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4,
                             num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, num_labels=labels, **changes)
        model = AutoModelForSequenceClassification.from_config(config)
        model.save_pretrained(self.folder / name)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(self.folder / "model" / file, self.folder / name / file)
        return model

    def theirs(self, model, targets, balance):
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
        losses = []
        for step in range(STEPS):
            rows = [(step * BATCH + i) % len(self.texts) for i in range(BATCH)]
            batch = self.tokenizer([self.texts[i] for i in rows], return_tensors="pt", padding=True, padding_side="right")
            loss = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"],
                         labels=torch.tensor([targets[i] for i in rows])).loss
            if balance:
                routers = model.model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"],
                                      output_router_logits=True).router_logits
                loss = loss + balance * load_balancing_loss_func(routers, 4, 2, batch["attention_mask"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, {name: value.detach() for name, value in model.state_dict().items()}

    def compare(self, name, labels, targets, *more, balance=0.0, meshes=MESHES, **changes):
        model = self.make(name, labels, **changes)
        write_rows(self.folder / f"{name}.jsonl", [{"text": t, "label": v} for t, v in zip(self.texts, targets)])
        losses, weights = self.theirs(model, targets, balance)
        for mesh in meshes:
            with self.subTest(name=name, mesh=mesh):
                self.remove("out")
                self.train("out", "--trainer", "classification", "--no-shuffle", "--learning-rate", RATE, "--length", 128, "--save-steps",
                           STEPS,
                           *mesh, *more, steps=STEPS, data=[name], model=name)
                for step, (ours, expected) in enumerate(zip(self.curve("out"), losses, strict=True)):
                    self.assertLess(abs(ours - expected), 1e-3, f"step {step}")
                saved = AutoModelForSequenceClassification.from_pretrained(self.folder / "out" / f"run-{STEPS}").state_dict()
                for path, value in weights.items():
                    self.assertLess((saved[path] - value).abs().max().item(), 1e-3, path)

    def test_one_class_of_several(self):
        self.compare("classes", 3, [len(text) % 3 for text in self.texts])

    def test_the_balance_of_experts_where_it_is_asked_for(self):
        experts = dict(family="mixtral", num_local_experts=4, num_experts_per_tok=2, router_aux_loss_coef=0.3, meshes=MESHES[:2])
        targets = [len(text) % 3 for text in self.texts]
        self.compare("experts", 3, targets, "--set", "aux_loss_enabled=true", balance=0.3, **experts)
        # transformers leaves it alone, even where the config asks for router logits.
        self.compare("unbalanced", 3, targets, **experts, output_router_logits=True)

    def test_a_number(self):
        self.compare("number", 1, [len(text) / 100 + 0.25 for text in self.texts], problem_type="regression")

    def test_any_of_several(self):
        self.compare("several", 2, [[float(len(text) % 2), float(len(text) % 3 == 0)] for text in self.texts],
                     problem_type="multi_label_classification")

    def test_a_label_that_is_no_number(self):
        self.make("words", 2)
        write_rows(self.folder / "words.jsonl", [{"text": "a", "label": "good"}])
        self.assertEqual(self.fails("none", "--trainer", "classification", data=["words"], model="words"),
                         '[words.jsonl, line 1] "label" must be a number or a list of numbers; got "good".')


if __name__ == "__main__":
    unittest.main()
