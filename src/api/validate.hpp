// From the C structs to a problem and a call, or the sentence that says what is wrong with them. Nothing behind this looks at C structs.
#pragma once

#include "common/tensor.hpp"
#include "tandem/result.hpp"

namespace tandem::api {

struct ForwardRequest {
  ForwardProblem problem;
  ForwardCall call;
};

// Whether addresses have to be there: yes to run, no to plan.
enum class Addresses { required, optional };

Status validate(const tandem_forward_args* args, Addresses addresses, ForwardRequest& request);

// To run: `request` points to what validate() makes of the arguments, until this thread calls again. The calls of a loop often differ in nothing, and
// arguments equal to the last ones that were right need no second look.
Status validate_run(const tandem_forward_args* args, const ForwardRequest*& request);

// No rows of out: nothing is launched. (Packed rows may belong to no sequence, and are then to be zeroed.)
inline bool nothing_to_do(const ForwardProblem& problem) { return problem.batch_of_q() == 0 || problem.seqlen_q == 0 || problem.num_heads == 0; }

}  // namespace tandem::api
