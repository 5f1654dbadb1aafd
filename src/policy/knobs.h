#pragma once

#include <span>
#include <string>

#include "policy/policy.h"
#include "policy/spec.h"

namespace pith {

/// The knobs of a row with the values that `part` gives, defaults elsewhere, each checked and in
/// its canonical form. Throws Error(usage) naming the nearest knob or the allowed range.
KnobValues resolve_knobs(std::span<const Knob> knobs, const SpecPart& part);

/// `name(knob=value,...)` with every knob of the row, in the row's order.
std::string spec_text(const std::string& name, std::span<const Knob> knobs,
                      const KnobValues& values);

/// The values that a knob allows, as help and errors say it: "1 to 64, integer" or "avg|max".
std::string allowed_values(const Knob& knob);

}  // namespace pith
