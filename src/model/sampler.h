#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace pith {

class Vocab;

/// temperature <= 0 is greedy. Values that switch a stage off: top_k 0, top_p 1, min_p 0,
/// repeat_penalty 1, empty grammar.
struct SamplerOptions {
  float temperature = 0;
  int top_k = 40;
  float top_p = 0.95F;
  float min_p = 0.05F;
  float repeat_penalty = 1;
  int repeat_last_n = 64;
  uint32_t seed = 0;
  std::string grammar = {};  ///< GBNF, root rule "root"
};

/// libllama's sampler chain.
class Sampler {
 public:
  /// Throws Error(usage) for values out of range or a grammar that does not parse.
  Sampler(const Vocab& vocab, const SamplerOptions& options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  /// Picks the next token from logits [n_vocab] and remembers it (repetition, grammar).
  int32_t sample(std::span<const float> logits);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pith
