#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "model/weights.h"
#include "support/packaged_model.h"

namespace pith::test {
namespace {

TEST(PackagedWeights, ConfigurationOfSmolLm2) {
  const auto weights = ModelWeights::load(packaged_model(), {});
  const ModelConfig& config = weights->config();
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.shape.n_layer, 30);
  EXPECT_EQ(config.shape.n_head, 9);
  EXPECT_EQ(config.shape.n_head_kv, 3);
  EXPECT_EQ(config.shape.head_dim, 64);
  EXPECT_EQ(config.shape.n_embd, 576);
  EXPECT_EQ(config.shape.n_vocab, 49152);
  EXPECT_EQ(config.n_ctx_train, 8192);
  EXPECT_FLOAT_EQ(config.rope.freq_base, 100000);
  EXPECT_FLOAT_EQ(config.attention_scale, 0.125F);
  EXPECT_EQ(weights->unembedding_name(), "token_embd.weight");
}

/// Repacking copies nothing that stays mapped and resident: at most the largest tensor twice.
TEST(PackagedWeights, RepackingDoesNotDoubleResidentMemory) {
  const auto resident = [] {
    std::ifstream status("/proc/self/statm");
    size_t pages = 0, in_memory = 0;
    status >> pages >> in_memory;
    return in_memory * 4096;
  };
  const size_t before = resident();
  const auto weights = ModelWeights::load(packaged_model(), {});
  EXPECT_LT(resident() - before, weights->bytes());
  EXPECT_GT(weights->bytes(), 90U << 20);
}

}  // namespace
}  // namespace pith::test
