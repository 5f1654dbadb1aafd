#pragma once

#include <ggml-backend.h>
#include <ggml.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/block_matrix.h"
#include "pith/pith.hpp"

namespace pith {

/// RoPE settings as ggml_rope_ext takes them.
struct RopeConfig {
  int type = 0;  ///< GGML_ROPE_TYPE_*
  int n_dims = 0;
  int n_ctx_orig = 0;
  float freq_base = 10000, freq_scale = 1, ext_factor = 0, attn_factor = 1;
  float beta_fast = 32, beta_slow = 1;
};

/// Hyper-parameters read from GGUF, all checked to be in a sane range.
struct ModelConfig {
  std::string architecture;
  std::string name;
  ModelShape shape;
  int n_ff = 0;
  int n_ctx_train = 0;
  float rms_eps = 0;
  float attention_scale = 0;
  RopeConfig rope;
};

/// Tensors of one layer; names are GGUF's. Biases are null where the file has none.
struct LayerWeights {
  ggml_tensor* attn_norm = nullptr;                             // [n_embd]
  ggml_tensor *wq = nullptr, *bq = nullptr;                     // [n_embd, n_head * head_dim]
  ggml_tensor *wk = nullptr, *bk = nullptr;                     // [n_embd, n_head_kv * head_dim]
  ggml_tensor *wv = nullptr, *bv = nullptr;                     // [n_embd, n_head_kv * head_dim]
  ggml_tensor *wo = nullptr, *bo = nullptr;                     // [n_head * head_dim, n_embd]
  ggml_tensor* ffn_norm = nullptr;                              // [n_embd]
  ggml_tensor *gate = nullptr, *up = nullptr, *down = nullptr;  // [n_embd, n_ff] x2, [n_ff, n_embd]
  ggml_tensor* rope_freqs = nullptr;  // [n_rot / 2], Llama 3; shared by layers
};

/// A checked GGUF file with its weights on the CPU backend: mapped where they are used as stored,
/// repacked or dequantised copies otherwise.
class ModelWeights {
 public:
  /// Throws Error: io (cannot read), bad_file (malformed, wrong shapes), unsupported (architecture,
  /// weight type), memory.
  static std::shared_ptr<const ModelWeights> load(const std::string& path,
                                                  const ModelOptions& options);
  virtual ~ModelWeights() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const LayerWeights& layer(int il) const = 0;
  virtual ggml_tensor* token_embedding() const = 0;  // [n_embd, n_vocab], for get_rows
  virtual ggml_tensor* output_norm() const = 0;      // [n_embd]
  virtual ggml_tensor* output() const = 0;           // [n_embd, n_vocab], for mul_mat; may be tied

  /// One of the tensors above laid out for pith's own products; null where they do not take it.
  /// Made when it is first asked for, and the pages of the file that it was made of are given back.
  virtual const BlockMatrix* blocks(const ggml_tensor* tensor) const = 0;

  /// Rows [first, first + count) of a 2-D (or the one row of a 1-D) tensor by GGUF name,
  /// dequantised from the file into out [count, row length]; exact for F32, F16 and BF16.
  virtual void read_rows(const std::string& tensor, int64_t first, int64_t count,
                         std::span<float> out) const = 0;
  /// The name of the unembedding tensor: "output.weight", or "token_embd.weight" where tied.
  virtual std::string unembedding_name() const = 0;
  /// Bytes of weights held, mapped and copied.
  virtual size_t bytes() const = 0;
  /// One line for people: types of the weights and how they are held ("Q4_1, AMX").
  virtual std::string storage() const = 0;
  virtual const std::string& path() const = 0;
  /// Of the file, see file_hash().
  virtual std::string hash() const = 0;
};

}  // namespace pith
