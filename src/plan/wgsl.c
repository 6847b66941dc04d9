/* SPDX-License-Identifier: Apache-2.0
 *
 * Rendering the WGSL of a pass.
 */
#include "plan/planner.h"

static nib_status render(const nib_plan *plan, const nib_plan_pass *pass, nib_arena *arena,
                         nib_buf *out, nib_error *error)
{
    /* The list dialect spells enable directives itself and keeps the line of an include
     * (format 2.B.5). */
    const bool list = plan->contract->dialect == NIB_DIALECT_LIST;
    const nib_template_options options = {.infer_enables = !list, .include_keeps_line = list};
    const nib_template_loader loader = nib_package_templates(plan->package);
    NIB_TRY(nib_template_render_wgsl(arena, pass->pass->shader, &loader, &pass->scope, &options,
                                     out, error));
    NIB_TRY(nib_buf_check(out, "the rendered WGSL", error));
    return nib_check_int64_use(plan, pass, arena, (nib_str){out->data ? out->data : "", out->len},
                               error);
}

nib_status nib_plan_wgsl(const nib_plan *plan, size_t pass, char **text, nib_error *error)
{
    *text = NULL;
    if (pass >= plan->pass_count)
        return nib_fail(error, NIB_INVALID_ARGUMENT,
                        "the plan has %zu passes, there is no pass %zu", plan->pass_count, pass);
    const nib_allocator *allocator = &plan->context->allocator;
    nib_arena arena;
    nib_arena_init(&arena, allocator, 0);
    nib_buf out;
    nib_buf_init(&out, allocator, 0);
    const nib_status status = render(plan, &plan->passes[pass], &arena, &out, error);
    nib_arena_free(&arena);
    if (status != NIB_OK) {
        nib_buf_free(&out);
        return status;
    }
    return nib_buf_take(&out, "the rendered WGSL", text, error);
}
