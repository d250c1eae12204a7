-- The figures of an output are a proof if they are complete, if they can be, and if its errors are inside the limits.
--
-- `fault` is the first thing that is wrong with the output; null if nothing is. `odd` says which figure is out of line
-- with the usual figures; a floor may be four times the usual noise.
CREATE OR REPLACE TEMP TABLE checked_outputs AS
WITH compared AS (
    SELECT l.*, c.key IS NOT NULL AND NOT draws_alone AS has_usual,
           c.elements AS usual_elements, c.unit AS usual_unit, c.steps AS usual_steps, c.largest AS usual_largest,
           c.itemsize AS usual_itemsize, c.conditioning_max_abs AS usual_conditioning_max_abs,
           c.conditioning_rel_fro AS usual_conditioning_rel_fro,
           greatest(c.floor_max_abs, c.conditioning_max_abs, ulps * spacing_at(c.largest)) AS usual_noise_abs,
           greatest(c.floor_rel_fro, c.conditioning_rel_fro, ulps * epsilon()) AS usual_noise_rel,
           c.floor_misrounded AS usual_floor_misrounded,
           l.elements * greatest(share, 2 * c.floor_misrounded) AS usual,  -- as of the limit of the output itself
           -- The root of the number of elements, and a little for the rounding of sums.
           sqrt(l.elements) * (1 + 1e-6::DOUBLE) AS root
    FROM limits l LEFT JOIN common_figures c USING (key, name, is_stale)
),
faults AS (
    SELECT *,
        array_to_string([
            CASE WHEN elements IS NULL THEN 'elements' END, CASE WHEN nan IS NULL THEN 'nan' END,
            CASE WHEN inf IS NULL THEN 'inf' END, CASE WHEN max_abs IS NULL THEN 'max_abs' END,
            CASE WHEN rel_fro IS NULL THEN 'rel_fro' END, CASE WHEN limit_max_abs IS NULL THEN 'limit_max_abs' END,
            CASE WHEN limit_rel_fro IS NULL THEN 'limit_rel_fro' END,
            CASE WHEN floor_max_abs IS NULL THEN 'floor_max_abs' END,
            CASE WHEN floor_rel_fro IS NULL THEN 'floor_rel_fro' END,
            CASE WHEN conditioning_max_abs IS NULL THEN 'conditioning_max_abs' END,
            CASE WHEN conditioning_rel_fro IS NULL THEN 'conditioning_rel_fro' END,
            CASE WHEN unit IS NULL THEN 'unit' END, CASE WHEN steps IS NULL THEN 'steps' END,
            CASE WHEN largest IS NULL THEN 'largest' END, CASE WHEN itemsize IS NULL THEN 'itemsize' END
        ], ', ') AS absent,
        coalesce(
            impossible('elements', elements, elements >= 1 AND elements = trunc(elements)),
            impossible('nan', nan, nan = trunc(nan)),
            impossible('inf', inf, inf = trunc(inf)),
            impossible('max_abs', max_abs, true),
            impossible('rel_fro', rel_fro, true),
            impossible('limit_max_abs', limit_max_abs, true),
            impossible('limit_rel_fro', limit_rel_fro, true),
            impossible('floor_max_abs', floor_max_abs, true),
            impossible('floor_rel_fro', floor_rel_fro, true),
            impossible('conditioning_max_abs', conditioning_max_abs, true),
            impossible('conditioning_rel_fro', conditioning_rel_fro, true),
            CASE WHEN misrounded IS NOT NULL THEN impossible('misrounded', misrounded, misrounded <= 1) END,
            CASE WHEN floor_misrounded IS NOT NULL
                THEN impossible('floor_misrounded', floor_misrounded, floor_misrounded <= 1) END,
            impossible('unit', unit, unit > 0),
            impossible('steps', steps, steps >= 1 AND steps = trunc(steps)),
            impossible('largest', largest, true),
            impossible('itemsize', itemsize, itemsize IN (1, 2, 4, 8))
        ) AS cannot_be,
        -- The norm of n numbers is between the largest of them and the root of n times that.
        CASE WHEN max_abs > 0 AND rel_fro > 0 AND largest > 0
            THEN rel_fro BETWEEN max_abs / (largest * root) AND max_abs * root / largest
            ELSE largest = 0 OR (max_abs = 0) = (rel_fro = 0) END AS errors_agree,
        coalesce(
            far('elements', elements, usual_elements, 0),
            far('steps', steps, usual_steps, 0),
            far('itemsize', itemsize, usual_itemsize, 0),
            far('unit', unit, usual_unit, 1e-6::DOUBLE),
            far('largest', largest, usual_largest, 1e-3::DOUBLE),
            far('conditioning_max_abs', conditioning_max_abs, usual_conditioning_max_abs, 1e-3::DOUBLE),
            far('conditioning_rel_fro', conditioning_rel_fro, usual_conditioning_rel_fro, 1e-3::DOUBLE)
        ) AS other_figure
    FROM compared
)
SELECT ordinal, place, output, name, variant, is_owed, elements,
    coalesce(unit, steps, largest, itemsize) IS NOT NULL AS says_how,  -- its limits were made
    CASE
        WHEN NOT is_named THEN because('unnamed_output', [name])
        WHEN isnan(growth) OR isnan(most_growth) OR growth > most_growth THEN because('over_growth', [output])
        WHEN absent <> '' THEN because('owes_figures', [output, absent])
        WHEN cannot_be IS NOT NULL THEN because('cannot_be', [output] || cannot_be)
        WHEN nan > 0 OR inf > 0 THEN because('not_finite', [output, nan::VARCHAR, inf::VARCHAR])
        WHEN NOT errors_agree THEN because('errors_disagree', [output])
        WHEN NOT is_same_limit(limit_max_abs, most_abs)
            THEN because('other_limit', [output, 'max_abs', limit_max_abs::VARCHAR, most_abs::VARCHAR])
        WHEN max_abs > most_abs THEN because('over_limit', [output, 'max_abs', max_abs::VARCHAR, most_abs::VARCHAR])
        WHEN NOT is_same_limit(limit_rel_fro, most_rel)
            THEN because('other_limit', [output, 'rel_fro', limit_rel_fro::VARCHAR, most_rel::VARCHAR])
        WHEN rel_fro > most_rel THEN because('over_limit', [output, 'rel_fro', rel_fro::VARCHAR, most_rel::VARCHAR])
        WHEN share > 0 AND misrounded IS NULL THEN because('owes_figures', [output, 'misrounded'])
        WHEN share > 0 AND floor_misrounded IS NULL THEN because('owes_figures', [output, 'floor_misrounded'])
        WHEN misrounded > most_misrounded
            THEN because('over_limit', [output, 'misrounded', misrounded::VARCHAR, most_misrounded::VARCHAR])
        WHEN largest > 0 AND most_rel >= 1 THEN because('zeros_pass', [output, most_rel::VARCHAR])
        END AS fault,
    CASE
        WHEN NOT has_usual THEN NULL
        WHEN other_figure IS NOT NULL THEN because('unusual_figure', [output] || other_figure)
        WHEN floor_max_abs > 4 * usual_noise_abs
            THEN because('unusual_floor', [output, 'floor_max_abs', floor_max_abs::VARCHAR, usual_noise_abs::VARCHAR])
        WHEN floor_rel_fro > 4 * usual_noise_rel
            THEN because('unusual_floor', [output, 'floor_rel_fro', floor_rel_fro::VARCHAR, usual_noise_rel::VARCHAR])
        WHEN share > 0 AND floor_misrounded * elements > usual + 4 * sqrt(usual) + 2
            THEN because('unusual_figure', [output, 'floor_misrounded', floor_misrounded::VARCHAR,
                                            usual_floor_misrounded::VARCHAR])
        END AS odd
FROM faults;
