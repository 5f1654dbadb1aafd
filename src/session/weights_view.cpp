#include "session/weights_view.h"

#include <string>

#include "model/rotation.h"

namespace pith {
namespace {

class LoadedWeights final : public WeightsView {
 public:
  explicit LoadedWeights(std::shared_ptr<const ModelWeights> weights)
      : weights_(std::move(weights)), norm_(size_t(shape().n_embd)) {
    weights_->read_rows("output_norm.weight", 0, 1, norm_);
  }

  const ModelShape& shape() const override { return weights_->config().shape; }
  float attention_scale() const override { return weights_->config().attention_scale; }
  Rotation rotation(int layer) const override {
    const ModelConfig& config = weights_->config();
    std::vector<float> factors;
    if (weights_->layer(layer).rope_freqs != nullptr) {
      factors.resize(size_t(config.rope.n_dims) / 2);
      weights_->read_rows("rope_freqs.weight", 0, 1, factors);
    }
    return rotation_of(config.rope, factors);
  }

  Norm final_norm() const override { return {.gain = norm_, .eps = weights_->config().rms_eps}; }

  void output_projection(int layer, std::span<float> out) const override {
    weights_->read_rows("blk." + std::to_string(layer) + ".attn_output.weight", 0, shape().n_embd,
                        out);
  }

  void unembedding(std::span<const int32_t> tokens, std::span<float> out) const override {
    const auto width = size_t(shape().n_embd);
    for (size_t i = 0; i < tokens.size(); ++i) {
      weights_->read_rows(weights_->unembedding_name(), tokens[i], 1,
                          out.subspan(i * width, width));
    }
  }

 private:
  std::shared_ptr<const ModelWeights> weights_;
  std::vector<float> norm_;
};

}  // namespace

std::unique_ptr<WeightsView> view_of(std::shared_ptr<const ModelWeights> weights) {
  return std::make_unique<LoadedWeights>(std::move(weights));
}

}  // namespace pith
