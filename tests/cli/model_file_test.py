#!/usr/bin/env python3
"""Model files a user meets: wrong, broken, unusual (cases 1, 3, 10, 11, 12, 16 and 20)."""

import os
import shutil
import subprocess

from cli_case import (FAILURE, TOKENS, USAGE, CliCase, environment, main, model, parse_one_json, path,
                      write)

BUILD = os.environ["DLLM_BUILD"]


def renamed(architecture):
    """A model file of another architecture."""
    return model("random", extra_keys={"general.architecture": ("string", architecture)})


class Architectures(CliCase):
    def test_autoregressive_and_unknown_ones_are_refused_by_name(self):
        for name in ("qwen2", "llama"):
            result = self.dllm("run", "-m", renamed(name), "-p", "x")
            self.assert_fails(result, FAILURE, f"unsupported architecture '{name}'", "dream", "llada",
                              "diffusion", f"{renamed(name)}, general.architecture")
        self.assert_fails(self.dllm("run", "-m", renamed("xyz"), "-p", "x"), FAILURE,
                          "unsupported architecture 'xyz'")

    def test_a_name_of_any_length_leaves_the_message_readable(self):
        line = self.assert_fails(self.dllm("run", "-m", renamed("x" * 1_000_000), "-p", "x"), FAILURE,
                                 "unsupported architecture 'xxx", "bytes left out", "Fix: use a supported")
        self.assertLess(len(line), 8192)

    def test_inspect_and_tokenize_take_any(self):
        self.assert_ok(self.dllm("inspect", renamed("qwen2")))


class MaskToken(CliCase):
    def test_missing_names_the_key_and_the_option(self):
        result = self.dllm("run", "-m", model("random", mask_id=None), "-p", "x")
        self.assert_fails(result, FAILURE, "tokenizer.ggml.mask_token_id", "--mask-id")

    def test_the_option_helps_and_any_id_is_used_as_given(self):
        self.assert_ok(self.dllm("run", "-m", model("random", mask_id=None), "-p", "x", "-n", 2,
                                 "--mask-id", 316))
        answer = self.run_json("-m", model("random", mask_id=5), "-p", "x", "-n", 4)
        self.assertNotIn(5, answer["tokens"])

    def test_outside_the_vocabulary_is_refused(self):
        self.assert_fails(self.dllm("run", "-m", model(), "-p", "x", "--mask-id", TOKENS), USAGE,
                          TOKENS, "--mask-id")


class Schedules(CliCase):
    def counts(self, arch, n, steps, *extra):
        answer = self.run_json("-m", model("random", arch=arch), "-p", "x", "-n", n, "--steps", steps,
                               "--ignore-eos", *extra)
        self.assertEqual(len(answer["tokens"]), n)
        return answer["steps"], answer["forwards"]

    def test_lengths_that_are_no_multiples_run(self):
        self.assertEqual(self.counts("llada", 48, 12, "--block-length", 32), (12, 12))
        self.assertEqual(self.counts("llada", 16, 10, "--block-length", 4), (10, 10))

    def test_fewer_steps_than_blocks_are_refused_with_both_numbers(self):
        result = self.dllm("run", "-m", model("random"), "-p", "x", "-n", 16, "--steps", 3,
                           "--block-length", 4)
        self.assert_fails(result, USAGE, "steps 3", "4 blocks")

    def test_steps_that_commit_nothing_cost_no_forward(self):
        steps, forwards = self.counts("dream", 8, 40)
        self.assertGreater(steps, forwards)
        self.assertLessEqual(forwards, 8)
        self.assertLessEqual(self.counts("llada", 4, 9)[1], 4)
        self.assertEqual(self.counts("llada", 8, 1, "--block-length", 8), (1, 1))

    def test_sampler_refusals_come_before_weights(self):
        broken = model("random", quant_of={"ffn_up.weight": "IQ2_XXS"})
        result = self.dllm("run", "-m", broken, "-p", "x", "--set", "exact=true", "-n", 48,
                           "--block-length", 32, "--steps", 7)
        self.assert_fails(result, USAGE, "48", "32")


class Files(CliCase):
    def test_weights_nobody_decodes_are_named_and_inspect_still_lists(self):
        broken = model("random", quant_of={"ffn_up.weight": "IQ2_XXS"})
        self.assert_fails(self.dllm("run", "-m", broken, "-p", "x"), FAILURE, "IQ2_XXS",
                          "blk.0.ffn_up.weight")
        listed = parse_one_json(self.dllm("inspect", broken, "--json").stdout)
        types = {tensor["name"]: tensor["type"] for tensor in listed["tensors"]}
        self.assertEqual(types["blk.0.ffn_up.weight"], "IQ2_XXS")
        self.assertEqual(listed["metadata"]["general.architecture"], "llada")

    def test_missing_and_misshapen_tensors_are_named(self):
        lost = model("random", drop_tensors=("blk.0.attn_q.weight",))
        self.assert_fails(self.dllm("run", "-m", lost, "-p", "x"), FAILURE, "blk.0.attn_q.weight")
        bent = model("random", shape_of={"blk.0.attn_q.weight": (256, 128)})
        self.assert_fails(self.dllm("run", "-m", bent, "-p", "x"), FAILURE, "blk.0.attn_q.weight",
                          "[256, 128]", "[256, 256]")

    def test_tied_output_and_absent_kv_heads_work(self):
        for changes in ({"tied": True}, {"drop_keys": ("llada.attention.head_count_kv",)}):
            self.assert_ok(self.dllm("run", "-m", model("random", **changes), "-p", "x", "-n", 2))

    def test_rows_without_tokens_are_never_produced_and_tokens_without_rows_refused(self):
        answer = self.run_json("-m", model("random", rows=2000), "-p", "x", "-n", 32, "--temp", 3,
                               "--ignore-eos")
        self.assertLess(max(answer["tokens"]), TOKENS)
        self.assert_fails(self.dllm("run", "-m", model("random", rows=300), "-p", "x"), FAILURE,
                          300, 320)

    def test_broken_files_fail_fast_and_inspect_lists_what_it_can(self):
        with open(model("random"), "rb") as file:
            whole = file.read()
        for name, content in [("empty.gguf", b""), ("cut.gguf", whole[:len(whole) // 2]),
                              ("magic.gguf", b"GGML" + whole[4:]), ("text.gguf", b"hello\n" * 9)]:
            broken = write(name, content)
            self.assert_fails(self.dllm("run", "-m", broken, "-p", "x"), FAILURE, name)
            result = self.dllm("inspect", broken)
            self.assertEqual(result.returncode, FAILURE)
            self.assertIn(b"dllm: error: ", result.stderr)
            report = self.dllm("inspect", broken, "--json")
            self.assertEqual(report.returncode, FAILURE)
            self.assertIn("error", parse_one_json(report.stdout))
        self.assertIn(b"blk.0.attn_q.weight", self.dllm("inspect", write("cut.gguf", whole[:-64])).stdout)

    def test_weights_that_are_not_finite_are_named(self):
        source = model("random")
        report = parse_one_json(self.dllm("inspect", source, "--json").stdout)
        with open(source, "rb") as file:
            content = bytearray(file.read())
        down = next(t for t in report["tensors"] if t["name"] == "blk.0.ffn_down.weight")
        last = report["tensors"][-1]
        data = len(content) - (last["offset"] + -(-last["bytes"] // 32) * 32)
        self.assertEqual(down["type"], "F32")
        at = data + down["offset"] + 4 * 7
        content[at:at + 4] = b"\x00\x00\xc0\x7f"
        broken = write("nan.gguf", bytes(content))
        for command in (["run", "-p", "x", "-n", 2], ["logits", "--tokens", "1,2", "--out", "nan.npy"]):
            result = self.dllm(command[0], "-m", broken, *command[1:])
            self.assert_fails(result, FAILURE, "blk.0.ffn_down.weight", "element 7")

    def test_a_file_shortened_during_a_run_is_an_error_with_its_reason(self):
        name = path("shortened.gguf")
        shutil.copy(model("random", context=4096), name)
        run = subprocess.Popen(self.command("run", "-m", name, "-p", "x", "-n", 4000), env=environment(),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertIn(b"backend", run.stderr.readline())  # the weights are loaded; 4000 steps follow
        os.truncate(name, 4096)
        out, message = run.communicate(timeout=100)
        self.assertEqual((run.returncode, out), (FAILURE, b""), message)
        self.assertIn(b"dllm: error: a part of the model file or of a plugin cannot be read any more", message)

    def test_no_chat_template_names_no_chat(self):
        bare = model("random", template=None)
        self.assert_fails(self.dllm("run", "-m", bare, "-p", "x"), FAILURE, "--no-chat")
        self.assert_ok(self.dllm("run", "-m", bare, "-p", "x", "-n", 2, "--no-chat"))


class Backends(CliCase):
    RUN = ["run", "-p", "x", "--backend"]

    def test_cuda_is_used_or_refused_with_the_reason(self):
        plugins = parse_one_json(self.dllm("plugins", "--json").stdout)["plugins"]
        known = {plugin["id"]: plugin for plugin in plugins if plugin["kind"] == "backend"}
        result = self.dllm(*self.RUN, "cuda", "-m", model(), "-n", 2)
        if "cuda" not in known:
            self.assert_fails(result, USAGE, "cuda", "cpu")
        elif result.returncode != 0:
            self.assert_fails(result, FAILURE, "cuda")

    def test_where_cuda_was_not_built_the_message_says_how_to_get_it(self):
        """The library looks for plugins beside itself: here beside a copy of it, with a folder of one backend."""
        lib, plugins = path("lib"), path("lib/dllm/plugins")
        os.makedirs(plugins)
        for name in os.listdir(os.path.join(BUILD, "lib")):
            if name.startswith("libdllm.so"):
                shutil.copy(os.path.join(BUILD, "lib", name), lib, follow_symlinks=False)
        for name in ("backend_cpu.so", "sampler_llada.so"):
            shutil.copy(os.path.join(BUILD, "lib/dllm/plugins", name), plugins)
        result = self.dllm(*self.RUN, "cuda", "-m", "no_such_model.gguf", env={"LD_LIBRARY_PATH": lib})
        self.assert_fails(result, USAGE, f"there is no backend 'cuda' here, there is cpu (searched {plugins})",
                          "-DDLLM_CUDA=ON (docs/building.md)", "backend_cuda.so")
        shutil.copy(model(), os.path.join(plugins, "backend_cuda.so"))  # there, and refused: its own reason is told
        result = self.dllm(*self.RUN, "cuda", "-m", "no_such_model.gguf", env={"LD_LIBRARY_PATH": lib})
        self.assert_fails(result, USAGE, "backend 'cuda' was refused: not an ELF file")

    def test_bad_usage_is_that_also_where_the_backend_cannot_run(self):
        os.makedirs(path("absent"), exist_ok=True)
        shutil.copy(os.path.join(BUILD, "tests/plugins/absent.so"), path("absent"))
        absent = [*self.RUN, "absent", "--plugin-dir", path("absent"), "-m", model()]
        self.assert_fails(self.dllm(*absent), FAILURE, "backend 'absent' cannot run here: no such device")
        for bad, says in ((["-t", 65], "'65' is not allowed (backend absent"), (["-n", 0], "-n"),
                          (["--backend-set", "thread=4"], "did you mean 'threads'?"),
                          (["-sysf", path("nowhere")], "nowhere"), (["--record", path("no/x")], "--record"),
                          (["-n", 100000], "the context has")):
            with self.subTest(bad=bad):
                self.assert_fails(self.dllm(*absent, *bad), USAGE, says)

    def test_an_option_the_machine_refuses_is_told_with_where_it_was_given(self):
        missing = [name for name in ("amx", "avxvnni", "avx512vnni") if self.refused(name)]
        if not missing:
            self.skipTest("this machine has every instruction set")
        config = write("isa.cfg", f"[backend]\nisa = {missing[0]}\n")
        for arguments, env, origin in ((["--backend-set", f"isa={missing[0]}"], {}, "--backend-set isa, command line"),
                                       (["--config", config], {}, f"isa, {config}:2"),
                                       ([], {"DLLM_CPU_ISA": missing[0]}, "environment variable DLLM_CPU_ISA")):
            result = self.dllm("run", "-m", model(), "-p", "x", "-n", 2, *arguments, env=env)
            self.assert_fails(result, USAGE, f"cannot run the instruction set '{missing[0]}'", origin)

    def refused(self, isa):
        return self.dllm("run", "-m", model(), "-p", "x", "-n", 1, env={"DLLM_CPU_ISA": isa}).returncode != 0

    def test_threads_change_no_token(self):
        tokens = {tuple(self.run_json("-m", model("random"), "-p", "x", "-n", 8, "-t", threads)["tokens"])
                  for threads in (1, 2, 7)}
        self.assertEqual(len(tokens), 1)


if __name__ == "__main__":
    main()
