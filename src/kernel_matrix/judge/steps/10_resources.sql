-- What the code of a case needs may not be more than a limit of matrix.yaml allows, or than its last value allows.
--
-- The figures of a case come from any accepted result that has them, of a run or of a compilation. Where the deciding
-- result is not stale, a stale one does not count. Source is no code. Of several the largest counts. A case of whose
-- code a limited figure is not known owes it; a case of whose code nothing is known owes nothing.
CREATE OR REPLACE TEMP MACRO name_in(figures, keys) AS
    list_filter(keys, lambda key: figures['artifact.' || key] IS NOT NULL)[1];

CREATE OR REPLACE TEMP TABLE resources AS
WITH held AS (  -- of each figure of a case the last entry that names it
    SELECT d.planned, d.stale > 0 AS is_stale, l.*, c.id || '/' || n.name AS id
    FROM deciding d JOIN planned p USING (planned)
    JOIN resource_cells rc ON rc.cell = p.cell
    JOIN resource_names rn ON rn.named = p.named AND rn.entry = rc.entry
    JOIN resource_limits l ON l.entry = rc.entry
    JOIN plan_cells c ON c.cell = p.cell JOIN plan_names n ON n.named = p.named
    WHERE d.outcome = 'pass'
    QUALIFY row_number() OVER (PARTITION BY d.planned, l.figure, l.kind ORDER BY l.entry DESC) = 1
),
said AS (
    SELECT h.*, c.figures, a.stale, c.figures IS NOT NULL AS is_code, name_in(c.figures, h.keys) AS key,
           c.figures['artifact.' || name_in(c.figures, h.keys)] AS needed,
           z.figures['artifact.' || name_in(z.figures, h.keys)] AS before
    FROM held h JOIN accepted a USING (planned)
    LEFT JOIN (SELECT record, figures FROM cases WHERE kind <> '' AND NOT ends_with(kind, '-source')) c USING (record)
    LEFT JOIN last_figures z ON z.last = h.last AND z.id = h.id
    WHERE a.outcome = 'pass' AND (a.stale = 0 OR h.is_stale)
),
compared AS (
    SELECT *, bool_or(is_code) OVER same AS is_compiled,
           CASE kind WHEN 'limit' THEN value ELSE value * before END AS most
    FROM said WHERE kind = 'limit' OR before IS NOT NULL
    WINDOW same AS (PARTITION BY planned, figure, kind)
    QUALIFY row_number() OVER (
        PARTITION BY planned, figure, kind ORDER BY needed IS NULL, stale > 0, needed DESC) = 1
),
named AS (  -- of several kernels in a case the one that needs most
    SELECT *, needed IS NULL AND is_compiled AS is_owed,
        substring(list_filter(map_keys(figures), lambda name:
        ends_with(name, '_' || key) AND figures[name] = needed
        AND figures[left(name, -len(key)) || 'bytes'] IS NOT NULL)[1], 10) AS kernel
    FROM compared
)
SELECT planned,
    arg_min(because('over_resource', [format('the code{}{} needs {} {}; matrix.yaml allows {} (resources[{}]){}',
        coalesce(' of ' || nullif(left(kernel, -len(key) - 1), ''), ''),
        coalesce(' (line ' || printf('%.0f', figures[
            'artifact.' || coalesce(left(kernel, -len(key)), '') || 'line']) || ')', ''),
        printf('%.10g', needed), words, printf('%.10g', most), entry,
        coalesce(', and its last value is ' || printf('%.10g', before), ''))]), entry) FILTER (needed > most) AS over,
    CASE WHEN bool_or(is_owed) THEN because('owes_resources', [format(
        'the results owe {} of the code: matrix.yaml has a limit (resources), and no result says it',
        string_agg(DISTINCT figure, ', ' ORDER BY figure) FILTER (is_owed))]) END AS owes
FROM named GROUP BY planned;
