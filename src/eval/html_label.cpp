#include "eval/html_label.h"

#include <vector>

#include "pith/error.hpp"
#include "policy/policy.h"

namespace pith {
namespace {

/// name(argument,...) of a spec.
struct Part {
  std::string name;
  std::vector<std::string> arguments;
};

std::vector<Part> parts_of(const std::string& spec) {
  std::vector<Part> parts(1);
  bool inside = false;
  for (const char c : spec) {
    Part& part = parts.back();
    if (c == '(') {
      inside = true;
      part.arguments.emplace_back();
    } else if (c == ')') {
      inside = false;
    } else if (c == '+' && !inside) {
      parts.emplace_back();
    } else if (c == ',' && inside) {
      part.arguments.emplace_back();
    } else {
      (inside ? part.arguments.back() : part.name) += c;
    }
  }
  return parts;
}

std::string text_of(const std::vector<Part>& parts) {
  std::string text;
  for (const Part& part : parts) {
    text += (&part == parts.data() ? "" : "+") + part.name;
    for (size_t a = 0; a < part.arguments.size(); ++a) {
      text += (a == 0 ? "(" : ",") + part.arguments[a];
    }
    if (!part.arguments.empty()) text += ")";
  }
  return text;
}

bool same_policy(const std::string& text, const std::string& full) {
  try {
    return Policy::parse(text).spec() == full;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string short_label(const std::string& spec) {
  if (!same_policy(spec, spec)) return spec;
  for (const PresetRow& preset : preset_rows()) {
    if (same_policy(preset.name, spec)) return preset.name;
  }
  std::vector<Part> parts = parts_of(spec);
  // Tries what is left without each thing in turn: how defaults combine only the parser knows.
  const auto attempt = [&](const std::vector<Part>& fewer) {
    if (same_policy(text_of(fewer), spec)) parts = fewer;
  };
  for (size_t p = parts.size(); p-- > 0;) {
    std::vector<Part> fewer = parts;
    if (p > 0) {
      fewer.erase(fewer.begin() + int64_t(p));
      attempt(fewer);
      if (parts.size() <= p) continue;
    }
    for (size_t a = parts[p].arguments.size(); a-- > 0;) {
      fewer = parts;
      fewer[p].arguments.erase(fewer[p].arguments.begin() + int64_t(a));
      attempt(fewer);
    }
  }
  return text_of(parts);
}

std::string policy_name(const std::string& spec) {
  return spec.substr(0, spec.find_first_of("(+"));
}

}  // namespace pith
