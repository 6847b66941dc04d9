/* SPDX-License-Identifier: Apache-2.0
 *
 * Rendering the WGSL of a pass.
 */
#include "plan/planner.h"

static nib_status render(const nib_plan *plan, const nib_plan_pass *pass, nib_arena *arena,
                         nib_buf *out, nib_line_map *lines, nib_error *error)
{
    /* The list dialect spells enable directives itself and keeps the line of an include
     * (format 2.B.5). */
    const bool list = plan->contract->dialect == NIB_DIALECT_LIST;
    const nib_template_options options = {
        .infer_enables = !list, .include_keeps_line = list, .line_map = lines};
    const nib_template_loader loader = nib_package_templates(plan->package);
    NIB_TRY(nib_template_render_wgsl(arena, pass->pass->shader, &loader, &pass->scope, &options,
                                     out, error));
    NIB_TRY(nib_buf_check(out, "the rendered WGSL", error));
    return nib_check_int64_use(plan, pass, arena, (nib_str){out->data ? out->data : "", out->len},
                               error);
}

static nib_status check_pass(const nib_plan *plan, size_t pass, nib_error *error)
{
    if (pass < plan->pass_count)
        return NIB_OK;
    return nib_fail(error, NIB_INVALID_ARGUMENT, "the plan has %zu passes, there is no pass %zu",
                    plan->pass_count, pass);
}

nib_status nib_plan_wgsl(const nib_plan *plan, size_t pass, char **text, nib_error *error)
{
    *text = NULL;
    NIB_TRY(check_pass(plan, pass, error));
    const nib_allocator *allocator = &plan->context->allocator;
    nib_arena arena;
    nib_arena_init(&arena, allocator, 0);
    nib_buf out;
    nib_buf_init(&out, allocator, 0);
    const nib_status status = render(plan, &plan->passes[pass], &arena, &out, NULL, error);
    nib_arena_free(&arena);
    if (status != NIB_OK) {
        nib_buf_free(&out);
        return status;
    }
    return nib_buf_take(&out, "the rendered WGSL", text, error);
}

static void write_lines(const nib_line_map *map, nib_buf *out)
{
    for (size_t i = 0; i < map->count; i++) {
        const nib_template_line *line = &map->lines[i];
        if (line->line)
            nib_buf_printf(out, "%.*s:%u", NIB_STR_ARG(line->file), (unsigned)line->line);
        nib_buf_putc(out, '\n');
    }
}

nib_status nib_plan_line_map(const nib_plan *plan, size_t pass, nib_arena *arena, nib_line_map *out,
                             nib_error *error)
{
    *out = (nib_line_map){0};
    NIB_TRY(check_pass(plan, pass, error));
    nib_buf wgsl;
    nib_buf_init(&wgsl, arena->allocator, 0);
    const nib_status status = render(plan, &plan->passes[pass], arena, &wgsl, out, error);
    nib_buf_free(&wgsl);
    return status;
}

nib_status nib_plan_wgsl_lines(const nib_plan *plan, size_t pass, char **text, nib_error *error)
{
    *text = NULL;
    const nib_allocator *allocator = &plan->context->allocator;
    nib_arena arena;
    nib_arena_init(&arena, allocator, 0);
    nib_buf lines;
    nib_buf_init(&lines, allocator, 0);
    nib_line_map map;
    nib_status status = nib_plan_line_map(plan, pass, &arena, &map, error);
    if (status == NIB_OK) {
        write_lines(&map, &lines);
        status = nib_buf_take(&lines, "the map of lines", text, error);
    } else {
        nib_buf_free(&lines);
    }
    nib_arena_free(&arena);
    return status;
}
