#include "model/config.h"

#include <cmath>
#include <optional>
#include <string>

#include "model/architectures.h"
#include "model/gguf_keys.h"
#include "pith/error.hpp"

namespace pith {
namespace {

constexpr int kMaxLayers = 512, kMaxHeads = 1024, kMaxHeadDim = 1024;
constexpr int kMaxWidth = 1 << 17, kMaxVocab = 1 << 22, kMaxContext = 1 << 27;

/// Keys of one architecture ("llama.block_count"), range-checked.
class ArchKeys {
 public:
  ArchKeys(const GgufKeys& keys, std::string arch) : keys_(keys), arch_(std::move(arch)) {}

  std::string full(const char* key) const { return arch_ + "." + key; }

  int size(const char* key, int most, std::optional<int> otherwise = std::nullopt) const {
    const auto value = keys_.integer(full(key));
    if (!value && otherwise) return *otherwise;
    if (!value) throw Error(ErrorCode::bad_file, "key " + full(key) + " is missing");
    if (*value < 1 || *value > most) {
      throw Error(ErrorCode::bad_file, "key " + full(key) + " is " + std::to_string(*value) +
                                           ", not from 1 to " + std::to_string(most));
    }
    return int(*value);
  }

  /// A positive number.
  float number(const char* key, float least, float most, std::optional<float> otherwise) const {
    const auto value = keys_.number(full(key));
    if (!value && otherwise) return *otherwise;
    if (!value) throw Error(ErrorCode::bad_file, "key " + full(key) + " is missing");
    if (!(*value >= least && *value <= most)) {  // also refuses NaN
      throw Error(ErrorCode::bad_file,
                  "key " + full(key) + " is " + std::to_string(*value) + ", out of range");
    }
    return float(*value);
  }

  bool has(const char* key) const { return keys_.has(full(key)); }
  std::optional<std::string> text(const char* key) const { return keys_.text(full(key)); }

 private:
  const GgufKeys& keys_;
  std::string arch_;
};

// The number of tokens where the file has any, as libllama takes it.
int read_n_vocab(const GgufKeys& keys, const ArchKeys& arch) {
  const auto tokens = keys.array_size("tokenizer.ggml.tokens", GGUF_TYPE_STRING);
  if (!tokens) return arch.size("vocab_size", kMaxVocab);
  if (*tokens < 1 || *tokens > kMaxVocab) {
    throw Error(ErrorCode::bad_file, std::to_string(*tokens) + " tokens in tokenizer.ggml.tokens");
  }
  return int(*tokens);
}

ModelShape read_shape(const GgufKeys& keys, const ArchKeys& arch) {
  ModelShape shape;
  shape.n_layer = arch.size("block_count", kMaxLayers);
  shape.n_head = arch.size("attention.head_count", kMaxHeads);
  shape.n_head_kv = arch.size("attention.head_count_kv", kMaxHeads, shape.n_head);
  shape.n_embd = arch.size("embedding_length", kMaxWidth);
  shape.n_vocab = read_n_vocab(keys, arch);
  if (shape.n_head % shape.n_head_kv != 0) {
    throw Error(ErrorCode::bad_file, std::to_string(shape.n_head) + " heads do not share " +
                                         std::to_string(shape.n_head_kv) + " KV heads evenly");
  }
  const int even_share = shape.n_embd / shape.n_head;
  shape.head_dim = arch.size("attention.key_length", kMaxHeadDim, even_share);
  if (shape.head_dim < 1 || shape.head_dim > kMaxHeadDim) {
    throw Error(ErrorCode::bad_file, "head size " + std::to_string(shape.head_dim));
  }
  if (arch.size("attention.value_length", kMaxHeadDim, even_share) != shape.head_dim) {
    throw Error(ErrorCode::unsupported, "keys and values of different sizes");
  }
  return shape;
}

// Scaling as libllama reads it: "linear" unless the type says otherwise, factor 1 unless given.
RopeConfig read_rope(const ArchKeys& arch, int rope_type, int head_dim, int n_ctx_train) {
  RopeConfig rope;
  rope.type = rope_type;
  rope.n_dims = arch.size("rope.dimension_count", head_dim, head_dim);
  if (rope.n_dims % 2 != 0) throw Error(ErrorCode::bad_file, "odd rope.dimension_count");
  rope.freq_base = arch.number("rope.freq_base", 1, 1e12F, rope.freq_base);
  rope.n_ctx_orig = arch.size("rope.scaling.original_context_length", kMaxContext, n_ctx_train);
  const char* factor_key =
      arch.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  const float factor = arch.number(factor_key, 0, 1e6F, 0.0F);
  const std::string scaling = arch.text("rope.scaling.type").value_or("linear");
  if (scaling != "none" && scaling != "linear" && scaling != "yarn") {
    throw Error(ErrorCode::unsupported, "RoPE scaling \"" + scaling + "\"");
  }
  if (scaling != "none" && factor != 0) rope.freq_scale = 1 / factor;
  rope.attn_factor = arch.number("rope.scaling.attn_factor", 1e-3F, 1e3F, rope.attn_factor);
  if (scaling == "yarn") {
    rope.ext_factor = 1;
    // ggml multiplies by 1 + 0.1 ln(factor); below a factor of 1 YaRN does not scale attention.
    if (rope.freq_scale > 1) rope.attn_factor /= 1 - 0.1F * std::log(rope.freq_scale);
  }
  return rope;
}

}  // namespace

ModelConfig read_config(const gguf_context* header) {
  const GgufKeys keys(header);
  const auto name = keys.text("general.architecture");
  if (!name) throw Error(ErrorCode::bad_file, "key general.architecture is missing");
  const Architecture& row = find_architecture(*name);
  const ArchKeys arch(keys, *name);
  if (keys.integer("split.count").value_or(1) > 1) {
    throw Error(ErrorCode::unsupported, "one part of a split model; merge the parts into one file");
  }
  if (keys.integer(arch.full("expert_count")).value_or(0) > 0) {
    throw Error(ErrorCode::unsupported, "a mixture of experts");
  }
  ModelConfig config;
  config.architecture = *name;
  config.name = keys.text("general.name").value_or("");
  config.shape = read_shape(keys, arch);
  config.n_ff = arch.size("feed_forward_length", 1 << 20);
  config.n_ctx_train = arch.size("context_length", kMaxContext);
  config.rms_eps = arch.number("attention.layer_norm_rms_epsilon", 0, 1, std::nullopt);
  config.attention_scale =
      arch.number("attention.scale", 1e-6F, 1e3F, 1 / std::sqrt(float(config.shape.head_dim)));
  config.rope = read_rope(arch, row.rope_type, config.shape.head_dim, config.n_ctx_train);
  return config;
}

}  // namespace pith
