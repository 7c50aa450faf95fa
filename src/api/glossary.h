/* glossary.h — what heed.h calls heed_glossary, as the files of src/api see it. */
#ifndef API_GLOSSARY_H
#define API_GLOSSARY_H

#include "search/glossary.h"

struct heed_glossary {
    struct glossary *terms;
};

#endif
