#include "base/timer.h"
#include "session/session.h"
#include "session/weights_view.h"

namespace pith {

ModelImpl::ModelImpl(const std::string& path, const ModelOptions& options) {
  const Timer timer;
  weights = ModelWeights::load(path, options);
  vocab = std::make_unique<Vocab>(path);
  view = view_of(weights);
  load_s = timer.seconds();
}

Model Model::load(const std::string& path, const ModelOptions& options) {
  return Model(std::make_shared<const ModelImpl>(path, options));
}

const ModelShape& Model::shape() const { return impl_->weights->config().shape; }
int Model::n_ctx_train() const { return impl_->weights->config().n_ctx_train; }

std::vector<int32_t> Model::tokenize(std::string_view text, bool special) const {
  return impl_->vocab->tokenize(text, special, special);
}

std::string Model::detokenize(std::span<const int32_t> tokens) const {
  return impl_->vocab->detokenize(tokens);
}

bool Model::is_end(int32_t token) const { return impl_->vocab->is_end(token); }

}  // namespace pith
