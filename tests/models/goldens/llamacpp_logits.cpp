// Prints the logits that llama.cpp computes for a token sequence of a diffusion model, as raw f32
// [tokens, vocabulary] on stdout. make_llamacpp_goldens.py and tests/real_model compile it against
// an owner's llama.cpp; the project's build does not.
//
//   llamacpp_logits MODEL.gguf ID,ID,ID [flash] >logits.bin
//
// `flash`: attention as llama.cpp chooses by itself, on a GPU its flash kernels; plain products
// without it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "llama.h"

int main(int argc, char** argv) {
  const bool flash = argc == 4 && std::strcmp(argv[3], "flash") == 0;
  if (argc != (flash ? 4 : 3)) return 2;
  llama_log_set(
      [](ggml_log_level level, const char* text, void*) {
        if (level >= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
      },
      nullptr);
  std::vector<llama_token> ids;
  std::stringstream list(argv[2]);
  for (std::string id; std::getline(list, id, ',');) ids.push_back(std::atoi(id.c_str()));

  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) return 1;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = 512;
  params.flash_attn_type = flash ? LLAMA_FLASH_ATTN_TYPE_AUTO : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) return 1;
  llama_set_causal_attn(context, false);

  llama_batch batch = llama_batch_init(static_cast<int>(ids.size()), 0, 1);
  batch.n_tokens = static_cast<int>(ids.size());
  for (int i = 0; i < batch.n_tokens; ++i) {
    batch.token[i] = ids[static_cast<std::size_t>(i)];
    batch.pos[i] = i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  if (llama_decode(context, batch) != 0) return 1;
  const int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  for (int i = 0; i < batch.n_tokens; ++i) {
    std::fwrite(llama_get_logits_ith(context, i), sizeof(float), static_cast<std::size_t>(n_vocab),
                stdout);
  }
  llama_batch_free(batch);
  llama_free(context);
  llama_model_free(model);
  return 0;
}
