#include "formats/jinja/template.h"

#include "base/hash.h"
#include "formats/jinja/evaluator.h"
#include "formats/jinja/parser.h"

namespace plimsoll::jinja {

Template::Template(std::string_view source, std::string name)
    : tree_(std::make_unique<Tree>(parse(source, std::move(name)))), hash_(hash_hex(source)) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

const std::string& Template::name() const { return tree_->name; }
bool Template::has_marks() const { return tree_->has_marks; }
Rendering Template::render(const RenderInput& input) const { return Evaluator(*tree_, input).run(); }

}  // namespace plimsoll::jinja
