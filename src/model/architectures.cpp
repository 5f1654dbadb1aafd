#include "model/architectures.h"

#include <array>

#include "pith/error.hpp"

namespace pith {
namespace {

using L = LayerWeights;
using E = Extent;

constexpr LayerTensor kLlamaLayer[] = {
    {"attn_norm.weight", E::embd, E::one, true, &L::attn_norm},
    {"attn_q.weight", E::embd, E::queries, true, &L::wq},
    {"attn_q.bias", E::queries, E::one, false, &L::bq},
    {"attn_k.weight", E::embd, E::keys, true, &L::wk},
    {"attn_k.bias", E::keys, E::one, false, &L::bk},
    {"attn_v.weight", E::embd, E::keys, true, &L::wv},
    {"attn_v.bias", E::keys, E::one, false, &L::bv},
    {"attn_output.weight", E::queries, E::embd, true, &L::wo},
    {"attn_output.bias", E::embd, E::one, false, &L::bo},
    {"ffn_norm.weight", E::embd, E::one, true, &L::ffn_norm},
    {"ffn_gate.weight", E::embd, E::ff, true, &L::gate},
    {"ffn_up.weight", E::embd, E::ff, true, &L::up},
    {"ffn_down.weight", E::ff, E::embd, true, &L::down},
};

constexpr const char* kLlamaRefused[] = {"ffn_gate.bias", "ffn_up.bias", "ffn_down.bias",
                                         "attn_q_norm.weight", "attn_k_norm.weight"};

// Llama 1 to 3 (the last with rope_freqs.weight), Mistral, SmolLM2.
constexpr std::array kArchitectures = {
    Architecture{"llama", GGML_ROPE_TYPE_NORMAL, kLlamaLayer, kLlamaRefused},
};

}  // namespace

const Architecture& find_architecture(std::string_view name) {
  std::string known;
  for (const Architecture& row : kArchitectures) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw Error(ErrorCode::unsupported,
              "architecture \"" + std::string(name) + "\" is not supported; known: " + known);
}

int64_t extent_size(const ModelConfig& config, Extent extent) {
  const ModelShape& shape = config.shape;
  switch (extent) {
    case Extent::one:
      return 1;
    case Extent::embd:
      return shape.n_embd;
    case Extent::ff:
      return config.n_ff;
    case Extent::queries:
      return int64_t{shape.n_head} * shape.head_dim;
    case Extent::keys:
      return int64_t{shape.n_head_kv} * shape.head_dim;
    case Extent::vocab:
      return shape.n_vocab;
    case Extent::rope_pairs:
      return config.rope.n_dims / 2;
  }
  throw Error(ErrorCode::internal, "unknown extent");
}

std::string layer_tensor_name(int layer, std::string_view name) {
  return "blk." + std::to_string(layer) + "." + std::string(name);
}

}  // namespace pith
