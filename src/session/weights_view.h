#pragma once

#include <memory>

#include "model/weights.h"
#include "pith/policy.hpp"

namespace pith {

/// A model's weights as policies ask for them, dequantised on demand.
std::unique_ptr<WeightsView> view_of(std::shared_ptr<const ModelWeights> weights);

}  // namespace pith
