/* SPDX-License-Identifier: Apache-2.0 */
#include "package/contract.h"

#include "package/reader.h"

static nib_status join_op_id(nib_reader *r)
{
    nib_contract *c = r->contract;
    char *text = nib_arena_alloc(r->arena, c->domain.len + c->name.len + 2, 1);
    if (!text)
        return nib_fail_memory(r->error);
    memcpy(text, c->domain.data, c->domain.len);
    text[c->domain.len] = '.';
    memcpy(text + c->domain.len + 1, c->name.data, c->name.len);
    c->op_id = (nib_str){text, c->domain.len + 1 + c->name.len};
    return NIB_OK;
}

/* The list style writes inputs as a list (2.B.1). */
static nib_dialect dialect_of(nib_value manifest)
{
    const nib_value *inputs = nib_map_get_cstr(manifest.as.map, "inputs");
    return inputs && inputs->type == NIB_VALUE_LIST ? NIB_DIALECT_LIST : NIB_DIALECT_MAP;
}

nib_status nib_contract_read(nib_arena *arena, nib_value manifest, const nib_contract **out,
                             nib_error *error)
{
    nib_reader r = {.arena = arena, .error = error};
    nib_value clean;
    *out = NULL;
    NIB_TRY(nib_keys_check(&r, NIB_KEY_MAP, "a manifest", manifest));
    NIB_TRY(nib_clean(&r, manifest, &clean));
    r.contract = NIB_ARENA_NEW(arena, nib_contract);
    if (!r.contract)
        return nib_fail_memory(error);
    r.contract->dialect = dialect_of(clean);
    if (r.contract->dialect == NIB_DIALECT_LIST)
        NIB_TRY(nib_read_list_manifest(&r, clean));
    else
        NIB_TRY(nib_read_map_manifest(&r, clean));
    NIB_TRY(join_op_id(&r));
    NIB_TRY(nib_collect_binding_names(&r));
    *out = r.contract;
    return NIB_OK;
}
