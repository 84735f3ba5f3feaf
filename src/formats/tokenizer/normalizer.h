// The normalizer of a tokenizer.json: how text changes before it is cut.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/tokenizer/component.h"

namespace plimsoll {

// A text on its way to the model.
struct Fragment {
  std::string text;
  bool at_start = false;   // its first character comes from the first one of the whole text
  bool continues = false;  // it goes on where a long text was cut: nothing is put in front of it
};

class Normalizer {
 public:
  Normalizer() = default;
  // The steps that a component says; a Sequence is its parts in order. E-TOKENIZER: a step that is not computed.
  explicit Normalizer(const Component& component) : where_(component.where()) { add(component); }

  // E-TOKENIZER: the text grows out of bounds.
  void apply(Fragment& fragment) const;

 private:
  void add(const Component& component);

  std::string where_;
  std::vector<std::function<void(Fragment&)>> steps_;
};

}  // namespace plimsoll
