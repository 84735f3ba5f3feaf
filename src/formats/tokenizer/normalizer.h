// The normalizer of a tokenizer.json: the changes of a text before it is cut.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/tokenizer/component.h"

namespace plimsoll {

// A part of a text, as the steps before the model change it.
struct Fragment {
  std::string text;
  bool at_start = false;   // begins with the first character of the whole text
  bool continues = false;  // continues a long text that was cut: gets no prefix
};

class Normalizer {
 public:
  Normalizer() = default;
  // The steps of a component; a Sequence has those of its parts in order. E-TOKENIZER: a step is not supported.
  explicit Normalizer(const Component& component) : where_(component.where()) { add(component); }

  // E-TOKENIZER: the text grows past most_grown().
  void apply(Fragment& fragment) const;

 private:
  void add(const Component& component);

  std::string where_;
  std::vector<std::function<void(Fragment&)>> steps_;
};

}  // namespace plimsoll
