#include "model/sampler.h"

#include <llama.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <vector>

#include "model/ggml_log.h"
#include "model/vocab.h"
#include "pith/error.hpp"

namespace pith {
namespace {

struct FreeSampler {
  void operator()(llama_sampler* sampler) const { llama_sampler_free(sampler); }
};
using SamplerPtr = std::unique_ptr<llama_sampler, FreeSampler>;

void need(bool fits, const char* what) {
  if (!fits) throw Error(ErrorCode::usage, what);
}

// Written so that NaN is refused.
void check(const SamplerOptions& options) {
  need(std::isfinite(options.temperature) && options.temperature <= 100,
       "temperature must be a number up to 100 (0 or less: greedy)");
  need(options.top_k >= 0, "top_k must be 0 (off) or more");
  need(options.top_p > 0 && options.top_p <= 1, "top_p must be above 0 and at most 1");
  need(options.min_p >= 0 && options.min_p <= 1, "min_p must be from 0 to 1");
  need(options.repeat_penalty > 0 && options.repeat_penalty <= 100,
       "repeat_penalty must be above 0 and at most 100");
  need(options.repeat_last_n >= 0 && options.repeat_last_n <= 1 << 20,
       "repeat_last_n must be from 0 to 1048576");
  need(options.grammar.find('\0') == std::string::npos, "the grammar has a zero byte");
}

// Stages that are off are no-ops of libllama's.
SamplerPtr make_chain(const SamplerOptions& options, int n_vocab) {
  SamplerPtr chain(llama_sampler_chain_init(llama_sampler_chain_default_params()));
  const auto add = [&](llama_sampler* stage) { llama_sampler_chain_add(chain.get(), stage); };
  add(llama_sampler_init_penalties(n_vocab, options.repeat_last_n, options.repeat_penalty, 0, 0));
  if (options.temperature <= 0) {
    add(llama_sampler_init_greedy());
    return chain;
  }
  add(llama_sampler_init_top_k(options.top_k));
  add(llama_sampler_init_top_p(options.top_p, 1));
  add(llama_sampler_init_min_p(options.min_p, 1));
  add(llama_sampler_init_temp(options.temperature));
  // libllama takes its default seed as a wish for a random one.
  add(llama_sampler_init_dist(options.seed == LLAMA_DEFAULT_SEED ? 0 : options.seed));
  return chain;
}

SamplerPtr make_grammar(const llama_vocab* vocab, const std::string& grammar) {
  if (grammar.empty()) return nullptr;
  if (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_NONE) {
    throw Error(ErrorCode::unsupported, "a grammar needs a model with a tokenizer");
  }
  SamplerPtr sampler;
  try {
    sampler.reset(llama_sampler_init_grammar(vocab, grammar.c_str(), "root"));
  } catch (const std::exception& error) {
    throw Error(ErrorCode::usage, std::string("grammar: ") + error.what());
  }
  need(sampler != nullptr, "the grammar does not parse (GBNF with a rule \"root\" is expected)");
  return sampler;
}

}  // namespace

struct Sampler::Impl {
  SamplerPtr grammar;  // null where there is none
  SamplerPtr chain;
  std::vector<llama_token_data> candidates;

  void fill(std::span<const float> logits);
  void apply_grammar(llama_token_data_array& array) const;
  int32_t pick();
};

void Sampler::Impl::fill(std::span<const float> logits) {
  if (logits.size() != candidates.size()) {
    throw Error(ErrorCode::internal, std::to_string(logits.size()) +
                                         " logits for a vocabulary of " +
                                         std::to_string(candidates.size()));
  }
  for (size_t i = 0; i < logits.size(); ++i) candidates[i] = {int32_t(i), logits[i], 0};
}

// A chain would pick some token even where the grammar forbids all, and accepting it aborts.
void Sampler::Impl::apply_grammar(llama_token_data_array& array) const {
  llama_sampler_apply(grammar.get(), &array);
  const bool any = std::any_of(array.data, array.data + array.size,
                               [](const auto& token) { return token.logit > -INFINITY; });
  if (!any) throw Error(ErrorCode::unsupported, "the grammar allows none of the model's tokens");
}

int32_t Sampler::Impl::pick() {
  llama_token_data_array array = {candidates.data(), candidates.size(), -1, false};
  if (grammar) apply_grammar(array);
  llama_sampler_apply(chain.get(), &array);
  if (array.selected < 0) throw Error(ErrorCode::internal, "the sampler picked no token");
  const int32_t token = array.data[array.selected].id;
  if (grammar) llama_sampler_accept(grammar.get(), token);
  llama_sampler_accept(chain.get(), token);
  return token;
}

Sampler::Sampler(const Vocab& vocab, const SamplerOptions& options)
    : impl_(std::make_unique<Impl>()) {
  silence_ggml();
  check(options);
  const llama_vocab* handle = llama_model_get_vocab(vocab.handle());
  impl_->grammar = make_grammar(handle, options.grammar);
  impl_->chain = make_chain(options, vocab.size());
  impl_->candidates.resize(size_t(vocab.size()));
}

Sampler::~Sampler() = default;

int32_t Sampler::sample(std::span<const float> logits) {
  impl_->fill(logits);
  try {
    return impl_->pick();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::internal, std::string("sampling: ") + error.what());
  }
}

}  // namespace pith
