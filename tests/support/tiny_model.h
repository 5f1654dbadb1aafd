#pragma once

#include <ggml.h>
#include <gguf.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "support/temp_file.h"

namespace pith::test {

/// Name and shape of a tensor about to be written; a test may change them.
struct TinyTensor {
  std::string name;
  std::vector<int64_t> shape;
  ggml_type type;
};

/// A random llama model. Row lengths (n_embd, n_ff, n_head * head_dim) must be multiples of the
/// weight type's block: 32 for Q8_0, Q4_0, Q4_1 and 256 for Q4_K, Q5_K, Q6_K.
struct TinyModelOptions {
  int n_layer = 2;
  int n_head = 4;
  int n_head_kv = 2;
  int head_dim = 16;
  int n_embd = 64;
  int n_ff = 96;
  int n_vocab = 64;
  int n_ctx_train = 4096;
  ggml_type type = GGML_TYPE_F32;  ///< of the matrices
  bool tied = false;               ///< no output.weight
  bool rope_freqs = false;         ///< factors from 1 to 8, as Llama 3 has them
  bool biases = false;             ///< on q, k, v and the attention output
  float rope_freq_base = 10000;
  uint32_t seed = 1;
  /// Changes key-values before the file is written.
  std::function<void(gguf_context*)> edit_keys = nullptr;
  /// Changes a tensor or, by returning false, leaves it out.
  std::function<bool(TinyTensor&)> edit_tensor = nullptr;
};

/// The model as a GGUF file that pith and libllama load (it has no tokenizer), removed with the
/// holder. Weights are scaled so that logits are of order 3 and attention is not flat.
class TinyModel {
 public:
  explicit TinyModel(const TinyModelOptions& options = {});

  const std::string& path() const { return file_.path(); }

 private:
  TempFile file_;
};

}  // namespace pith::test
