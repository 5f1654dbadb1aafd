#include "eval/llama_peer.h"

#include <llama-cpp.h>

#include <algorithm>

#include "cache/kv_type.h"
#include "model/ggml_log.h"

namespace pith {
namespace {

struct BatchDeleter {
  void operator()(llama_batch* batch) const {
    llama_batch_free(*batch);
    delete batch;
  }
};

}  // namespace

struct LlamaPeer::Impl {
  llama_model_ptr model;
  llama_context_ptr context;
  std::unique_ptr<llama_batch, BatchDeleter> batch;
  int n_ubatch = 0;
  int32_t position = 0;
};

LlamaPeer::LlamaPeer(const std::string& gguf_path, const PeerOptions& options)
    : impl_(std::make_unique<Impl>()) {
  silence_ggml();
  llama_model_params model = llama_model_default_params();
  model.n_gpu_layers = 0;
  impl_->model.reset(llama_model_load_from_file(gguf_path.c_str(), model));
  if (!impl_->model) throw Error(ErrorCode::bad_file, gguf_path + ": libllama cannot load it");
  llama_context_params params = llama_context_default_params();
  params.n_ctx = uint32_t(options.n_ctx);
  params.n_batch = params.n_ubatch = uint32_t(options.n_ubatch);
  params.n_threads = params.n_threads_batch = options.threads;
  params.flash_attn_type =
      options.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.type_k = params.type_v = to_ggml(options.kv_type);
  impl_->context.reset(llama_init_from_model(impl_->model.get(), params));
  if (!impl_->context) throw Error(ErrorCode::memory, "libllama cannot make its context");
  impl_->n_ubatch = options.n_ubatch;
  impl_->batch.reset(new llama_batch(llama_batch_init(options.n_ubatch, 0, 1)));
}

LlamaPeer::~LlamaPeer() = default;

std::vector<float> LlamaPeer::run(std::span<const int32_t> tokens, bool all) {
  const auto n_vocab = size_t(llama_vocab_n_tokens(llama_model_get_vocab(impl_->model.get())));
  std::vector<float> logits;
  for (size_t at = 0; at < tokens.size(); at += size_t(impl_->n_ubatch)) {
    llama_batch& batch = *impl_->batch;
    batch.n_tokens = int32_t(std::min(tokens.size() - at, size_t(impl_->n_ubatch)));
    for (int32_t i = 0; i < batch.n_tokens; ++i) {
      const bool last = at + size_t(i) + 1 == tokens.size();
      batch.token[i] = tokens[at + size_t(i)];
      batch.pos[i] = impl_->position++;
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = 0;
      batch.logits[i] = int8_t(all || last);
    }
    if (llama_decode(impl_->context.get(), batch) != 0) {
      throw Error(ErrorCode::internal, "libllama could not run the tokens");
    }
    for (int32_t i = 0; i < batch.n_tokens; ++i) {
      if (batch.logits[i] == 0) continue;
      const float* row = llama_get_logits_ith(impl_->context.get(), i);
      logits.insert(logits.end(), row, row + n_vocab);
    }
  }
  return logits;
}

void LlamaPeer::clear() {
  llama_memory_clear(llama_get_memory(impl_->context.get()), false);
  impl_->position = 0;
}

}  // namespace pith
