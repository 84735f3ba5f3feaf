#include "formats/tokenizer/post_processor.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "formats/tokenizer/token_table.h"

namespace plimsoll {

using Json = nlohmann::json;

namespace {

Token id_of(const Component& component, const Json& id) {
  if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMostTokens) component.refuse("a special token has no id");
  return id.get<Token>();
}

// ["[CLS]", 101]
Token pair_id(const Component& component, const char* key) {
  const Json pair = component.json().value(key, Json());
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string()) component.refuse(fmt::format("{} is no token and id", key));
  return id_of(component, pair[1]);
}

}  // namespace

void PostProcessor::add(const Component& component) {
  const std::string& type = component.type();
  if (type == "Sequence") {
    for (const Component& part : component.list("processors")) add(part);
    return;
  }
  if (type == "ByteLevel") return add_trimming(component);
  if (inserts_) component.refuse("a second processor that inserts tokens");
  inserts_ = true;
  if (type == "TemplateProcessing") {
    add_template(component);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    if (type == "RobertaProcessing") add_trimming(component);
    before_ = {pair_id(component, "cls")};
    behind_ = {pair_id(component, "sep")};
  } else {
    component.refuse_type();
  }
}

void PostProcessor::add_trimming(const Component& component) {
  if (!component.flag("trim_offsets", true)) return;
  trims_ = true;
  keeps_first_ = component.flag("add_prefix_space", true);
}

void PostProcessor::add_template(const Component& component) {
  const Json single = component.json().value("single", Json());
  const Json tokens = component.json().value("special_tokens", Json());
  if (!single.is_array() || !tokens.is_object()) component.refuse("its single or special_tokens is missing");
  bool seen = false;
  for (const Json& piece : single) {
    if (!piece.is_object() || piece.size() != 1 || !piece.begin()->is_object())
      component.refuse("a piece of its template is not read");
    const Json id = piece.begin()->value("id", Json());
    if (!id.is_string()) component.refuse("a piece of its template has no id");
    if (piece.begin().key() == "Sequence") {
      if (seen || id.get_ref<const std::string&>() != "A") component.refuse("its template for one text has another one");
      seen = true;
      continue;
    }
    const Json token = tokens.value(id.get<std::string>(), Json());
    const Json ids = token.is_object() ? token.value("ids", Json()) : Json();
    if (piece.begin().key() != "SpecialToken" || !ids.is_array()) {
      component.refuse(fmt::format("its template names {}, which special_tokens lacks", id.dump()));
    }
    for (const Json& each : ids) (seen ? behind_ : before_).push_back(id_of(component, each));
  }
  if (!seen) component.refuse("its template lacks the text");
}

nlohmann::ordered_json template_processing(const std::optional<InsertedToken>& before,
                                           const std::optional<InsertedToken>& behind) {
  using Ordered = nlohmann::ordered_json;
  if (!before && !behind) return {};
  Ordered texts[2] = {Ordered::array(), Ordered::array()}, tokens = Ordered::object();
  for (const auto* token : {&before, &behind}) {
    if (*token) tokens[(*token)->text] = {{"id", (*token)->text}, {"ids", {(*token)->id}}, {"tokens", {(*token)->text}}};
  }
  for (const auto& [name, type] : {std::pair("A", 0), std::pair("B", 1)}) {
    const auto special = [&](const InsertedToken& token) -> Ordered {
      return {{"SpecialToken", {{"id", token.text}, {"type_id", type}}}};
    };
    Ordered part = Ordered::array();
    if (before) part.push_back(special(*before));
    part.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
    if (behind) part.push_back(special(*behind));
    if (type == 0) texts[0] = part;
    texts[1].insert(texts[1].end(), part.begin(), part.end());
  }
  return {{"type", "TemplateProcessing"}, {"single", texts[0]}, {"pair", texts[1]}, {"special_tokens", tokens}};
}

}  // namespace plimsoll
