#include "graph/transfer.h"

namespace plimsoll {
namespace {

std::vector<ValueType> same(const Attributes&, TypeSpan inputs) { return {inputs.front()}; }

Cost no_cost(const Attributes&, TypeSpan, TypeSpan) { return {}; }

template <std::size_t kInput>
std::vector<Alias> in_place(const Attributes&) {
  return {{kInput, 0, AliasKind::updates}};
}

constexpr const char* kAfterGradients = "transfers are inserted when the gradients are there";

}  // namespace

const OpDef kFetch{
    .name = "fetch", .infer = same, .cost = no_cost, .not_differentiable = kAfterGradients, .transfer = Transfer::fetch};
const OpDef kFetched{.name = "fetched",
                     .infer = same,
                     .cost = no_cost,
                     .not_differentiable = kAfterGradients,
                     .aliases = in_place<0>,
                     .transfer = Transfer::fetched};
const OpDef kStore{.name = "store",
                   .infer = same,
                   .cost = no_cost,
                   .not_differentiable = kAfterGradients,
                   .aliases = in_place<0>,
                   .transfer = Transfer::store};
const OpDef kStored{.name = "stored",
                    .infer = same,
                    .cost = no_cost,
                    .not_differentiable = kAfterGradients,
                    .aliases = in_place<1>,
                    .transfer = Transfer::stored};

}  // namespace plimsoll
