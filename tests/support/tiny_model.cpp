#include "support/tiny_model.h"

#include <ggml-cpp.h>

#include <cmath>
#include <random>
#include <stdexcept>

namespace pith::test {
namespace {

constexpr float kNormSpread = 0.1F, kBiasSpread = 0.3F;
// With normalised inputs, q.k / sqrt(head_dim) then has a standard deviation of kQueryGain squared.
constexpr float kQueryGain = 1.4F, kLogitGain = 3, kResidualGain = 0.5F;

class Writer {
 public:
  explicit Writer(const TinyModelOptions& options)
      : options_(options), random_(options.seed), gguf_(gguf_init_empty()) {
    constexpr size_t kSpare = size_t{1} << 20;
    context_.reset(ggml_init({data_bytes() + kSpare, nullptr, false}));
  }

  void write(const std::string& path) {
    keys();
    if (options_.edit_keys) options_.edit_keys(gguf_.get());
    ends();
    for (int il = 0; il < options_.n_layer; ++il) layer("blk." + std::to_string(il) + ".");
    if (!gguf_write_to_file(gguf_.get(), path.c_str(), false)) {
      throw std::runtime_error("cannot write " + path);
    }
  }

 private:
  int64_t queries() const { return int64_t{options_.n_head} * options_.head_dim; }
  int64_t kv() const { return int64_t{options_.n_head_kv} * options_.head_dim; }

  // Generous: every matrix as F32, twice for the ends, and room for edited shapes.
  size_t data_bytes() const {
    const int64_t layer = options_.n_embd * (2 * queries() + 2 * kv() + 3 * options_.n_ff + 64);
    const int64_t ends = int64_t{2} * options_.n_embd * (options_.n_vocab + 64);
    return sizeof(float) * 2 * size_t(options_.n_layer * layer + ends);
  }

  void keys() {
    auto* g = gguf_.get();
    gguf_set_val_str(g, "general.architecture", "llama");
    gguf_set_val_str(g, "general.name", "tiny");
    gguf_set_val_str(g, "tokenizer.ggml.model", "no_vocab");
    const auto number = [g](const char* key, int value) {
      gguf_set_val_u32(g, key, uint32_t(value));
    };
    number("llama.vocab_size", options_.n_vocab);
    number("llama.context_length", options_.n_ctx_train);
    number("llama.embedding_length", options_.n_embd);
    number("llama.block_count", options_.n_layer);
    number("llama.feed_forward_length", options_.n_ff);
    number("llama.attention.head_count", options_.n_head);
    number("llama.attention.head_count_kv", options_.n_head_kv);
    number("llama.attention.key_length", options_.head_dim);
    number("llama.attention.value_length", options_.head_dim);
    number("llama.rope.dimension_count", options_.head_dim);
    gguf_set_val_f32(g, "llama.rope.freq_base", options_.rope_freq_base);
    gguf_set_val_f32(g, "llama.attention.layer_norm_rms_epsilon", 1e-5F);
  }

  void ends() {
    const auto in = float(options_.n_embd);
    matrix("token_embd.weight", options_.n_embd, options_.n_vocab, kLogitGain / std::sqrt(in));
    vector("output_norm.weight", options_.n_embd, 1, kNormSpread);
    if (!options_.tied) {
      matrix("output.weight", options_.n_embd, options_.n_vocab, kLogitGain / std::sqrt(in));
    }
    if (!options_.rope_freqs) return;
    std::vector<float> factors(size_t(options_.head_dim / 2));
    for (size_t i = 0; i < factors.size(); ++i) {
      factors[i] = 1 + 7 * float(i) / float(factors.size());
    }
    add({"rope_freqs.weight", {int64_t(factors.size())}, GGML_TYPE_F32}, factors);
  }

  void layer(const std::string& prefix) {
    const int64_t embd = options_.n_embd, ff = options_.n_ff;
    const auto gain = [](float of, int64_t in) { return of / std::sqrt(float(in)); };
    vector(prefix + "attn_norm.weight", embd, 1, kNormSpread);
    matrix(prefix + "attn_q.weight", embd, queries(), gain(kQueryGain, embd));
    matrix(prefix + "attn_k.weight", embd, kv(), gain(kQueryGain, embd));
    matrix(prefix + "attn_v.weight", embd, kv(), gain(1, embd));
    matrix(prefix + "attn_output.weight", queries(), embd, gain(kResidualGain, queries()));
    vector(prefix + "ffn_norm.weight", embd, 1, kNormSpread);
    matrix(prefix + "ffn_gate.weight", embd, ff, gain(1, embd));
    matrix(prefix + "ffn_up.weight", embd, ff, gain(1, embd));
    matrix(prefix + "ffn_down.weight", ff, embd, gain(kResidualGain, ff));
    if (!options_.biases) return;
    vector(prefix + "attn_q.bias", queries(), 0, kBiasSpread);
    vector(prefix + "attn_k.bias", kv(), 0, kBiasSpread);
    vector(prefix + "attn_v.bias", kv(), 0, kBiasSpread);
    vector(prefix + "attn_output.bias", embd, 0, kBiasSpread);
  }

  void matrix(const std::string& name, int64_t columns, int64_t rows, float spread) {
    add({name, {columns, rows}, options_.type}, {}, 0, spread);
  }

  void vector(const std::string& name, int64_t size, float mean, float spread) {
    add({name, {size}, GGML_TYPE_F32}, {}, mean, spread);
  }

  // Writes `values`, or random ones where none are given.
  void add(TinyTensor tensor, std::vector<float> values, float mean = 0, float spread = 0) {
    if (options_.edit_tensor && !options_.edit_tensor(tensor)) return;
    const auto& shape = tensor.shape;
    if (shape[0] % ggml_blck_size(tensor.type) != 0) {
      throw std::invalid_argument(tensor.name + ": rows are not whole blocks of its type");
    }
    auto* target = ggml_new_tensor(context_.get(), tensor.type, int(shape.size()), shape.data());
    ggml_set_name(target, tensor.name.c_str());
    if (values.empty()) {
      std::normal_distribution<float> normal(mean, spread);
      values.resize(size_t(ggml_nelements(target)));
      for (float& value : values) value = normal(random_);
    }
    ggml_quantize_chunk(tensor.type, values.data(), target->data, 0, ggml_nrows(target), shape[0],
                        nullptr);
    gguf_add_tensor(gguf_.get(), target);
  }

  const TinyModelOptions& options_;
  std::mt19937 random_;
  gguf_context_ptr gguf_;
  ggml_context_ptr context_;
};

}  // namespace

TinyModel::TinyModel(const TinyModelOptions& options) { Writer(options).write(file_.path()); }

}  // namespace pith::test
